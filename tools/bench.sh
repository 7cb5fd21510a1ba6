#!/bin/sh
# Runs every micro-benchmark (BENCHCOUNT times, default 10) and compares them with those that are stored. Run it from the root of
# the repository.
#
# It leaves test/perf/results/bench.txt, which benchstat can compare with any other, and what benchstat says of it in
# benchstat.txt, which docs/performance.md shows.
set -eu

results=test/perf/results
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM

# benchstat is pinned here and not in tools/go.mod, where it would move the versions of others.
benchstat() {
	go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260312031701-16a31bc5fbd0 "$@"
}

packages=$(find internal -name bench_test.go -exec dirname {} \; | sort | sed 's#^#./#')
# shellcheck disable=SC2086
go test -run '^$' -bench . -benchmem -count "${BENCHCOUNT:-10}" $packages >"$scratch/bench.txt" || {
	cat "$scratch/bench.txt"
	exit 1
}
cat "$scratch/bench.txt"
if [ -f "$results/bench.txt" ]; then
	benchstat "stored=$results/bench.txt" "now=$scratch/bench.txt"
fi
benchstat "now=$scratch/bench.txt" >"$scratch/benchstat.txt"
mv "$scratch/bench.txt" "$scratch/benchstat.txt" "$results/"
go test ./test/perf/report -run TheDocumentation -update >/dev/null
