#!/bin/sh
# Runs every micro-benchmark (BENCHCOUNT times, default 10) and compares them with those that are stored. Run it from the root of
# the repository.
#
# With STORE=1 it leaves test/perf/results/bench.txt, which benchstat can compare with any other, and what benchstat says of it in
# benchstat.txt, which docs/performance.md shows. It wants ten runs at least for that, and quiet cores.
set -eu

results=test/perf/results
count=${BENCHCOUNT:-10}
spread=5 # per cent between runs, above which a benchmark says little
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM

if [ "${STORE:-}" = 1 ] && [ "$count" -lt 10 ]; then
	echo "bench: $count runs are too few to store, want BENCHCOUNT=10 at least" >&2
	exit 1
fi

# benchstat has a module file of its own: in tools/go.mod it would move the versions of others. A mean of unlike things means nothing.
benchstat() {
	go tool -modfile=tools/benchstat.mod benchstat "$@" >"$scratch/said.txt"
	grep -v '^geomean' "$scratch/said.txt"
}

packages=$(git grep -l '^func Benchmark' -- '*_test.go' ':!tools' ':!test/charts' | xargs -n 1 dirname | sort -u | sed 's#^#./#')
changed=$(git status --porcelain -- . ":!$results" ':!docs')
echo "# commit $(git rev-parse HEAD)${changed:+ with changes}, $(date -u +%Y-%m-%dT%H:%M:%SZ), load before $(cut -d ' ' -f 1 /proc/loadavg)" >"$scratch/header.txt"
# shellcheck disable=SC2086
go test -run '^$' -bench . -benchmem -count "$count" $packages >"$scratch/runs.txt" || {
	cat "$scratch/runs.txt"
	exit 1
}
cat "$scratch/header.txt" "$scratch/runs.txt" | tee "$scratch/bench.txt"
if [ -f "$results/bench.txt" ]; then
	benchstat "stored=$results/bench.txt" "now=$scratch/bench.txt"
fi
benchstat "now=$scratch/bench.txt" >"$scratch/table.txt"
cat "$scratch/header.txt" "$scratch/table.txt" >"$scratch/benchstat.txt"
awk -v most="$spread" '/±/ { p = $0; sub(/.*± */, "", p); if (p ~ /∞/ || p + 0 > most) print "# runs lie more than " most " % apart: " $0 }' \
	"$scratch/table.txt" >"$scratch/apart.txt"
cat "$scratch/apart.txt" >&2
# A reader of the page has to see that, too.
cat "$scratch/apart.txt" >>"$scratch/benchstat.txt"
if [ "${STORE:-}" != 1 ]; then
	echo 'bench: nothing is stored without STORE=1' >&2
	exit 0
fi
mv "$scratch/bench.txt" "$scratch/benchstat.txt" "$results/"
go test ./test/perf/report -run TheDocumentation -update >/dev/null
