#!/bin/sh
# Runs every fuzz target of the repository for a while (FUZZTIME, default 10s) and prints one event per target in the form of
# `go test -json`, so that they can be counted. Run it from the root of the repository. FUZZWORKERS (default: as many as processors) is how
# many processes search at once.
#
# A target that fails leaves its input under testdata/fuzz of its package: commit it, and it is a test from then on.
set -eu

time=${FUZZTIME:-10s}
workers=${FUZZWORKERS:-$(getconf _NPROCESSORS_ONLN)}
grep -rl --include='*_test.go' '^func Fuzz' internal cmd api test 2>/dev/null | sort | while read -r file; do
	package=./$(dirname "$file")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		outcome=pass
		# Looking for the smallest input that is of interest can take longer than the search itself.
		if ! go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel "$workers" -fuzzminimizetime 10x >&2; then
			outcome=fail
		fi
		echo "{\"Action\":\"$outcome\",\"Package\":\"$package\",\"Test\":\"$target/fuzzed\"}"
	done
done
