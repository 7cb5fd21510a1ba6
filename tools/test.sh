#!/bin/sh
# Runs the tests of all modules and ends with one line, "N passed, N failed". Run it from the root of the repository.
#
#   tools/test.sh all     every test
#   tools/test.sh unit    only tests that start no cluster
#   tools/test.sh installed    the charts, installed on a control plane
#
# PACKAGES (default ./...) and TESTFLAGS are handed on to go test.
set -eu

which=${1:-all}
packages=${PACKAGES:-./...}
log=$(mktemp -d)
fuzzing=
trap 'rm -rf "$log"; test -z "$fuzzing" || kill -- "-$fuzzing" 2>/dev/null || true' EXIT
trap 'exit 130' HUP INT TERM

# needs_no_cluster prints the packages whose tests neither use the harness nor are about the local cluster itself.
needs_no_cluster() {
	go list -f '{{$cluster := false -}}
		{{range .Imports}}{{if eq . "'"$harness"'"}}{{$cluster = true}}{{end}}{{end -}}
		{{range .TestImports}}{{if eq . "'"$harness"'"}}{{$cluster = true}}{{end}}{{end -}}
		{{range .XTestImports}}{{if eq . "'"$harness"'"}}{{$cluster = true}}{{end}}{{end -}}
		{{if not $cluster}}{{.ImportPath}}{{end}}' $packages | grep -v -e '/test/harness$' -e '/localcluster' -e '/cmd/dynamo-local'
}
harness=$(go list -m)/test/harness

# alone are the packages that promise something within a time, and get the machine for themselves.
alone='/test/\(e2e/models\|e2e/production\|e2e/tenancy\|e2e/webhooks\|perf\)$'

# long are the packages that take minutes. They come first of those with a control plane, so that none is left over in the end with
# nobody beside it, but after the rest, while which everything is compiled.
long='/test/\(faults\|e2e/deletion\)$'

# apart are packages that only tools/skew.sh makes sense of: without anything old they tell nothing that others do not.
apart='/test/skew$'
[ "$packages" = ./... ] || apart='^$'

status=0
# run tests packages of one module: its directory, how many packages at once, then which.
# -count=1: a cached result says nothing about a cluster. -parallel 8: tests on a cluster mostly wait for it.
run() {
	module=$1
	atonce=$2
	shift 2
	[ $# -gt 0 ] || return 0
	runs=$((runs + 1))
	(cd "$module" && go tool -modfile="$root/tools/go.mod" gotestsum \
		--format pkgname --format-icons text --format-hide-empty-pkg --hide-summary skipped --jsonfile "$log/run$runs.json" \
		-- -race -count=1 -p "$atonce" -parallel 8 -timeout 20m ${TESTFLAGS:-} "$@") || status=1
}
runs=0
root=$PWD

# rights compares what operators of a mode asked of their API servers with the role they have, which only all tests together
# can tell: the mode, then the role. It counts as one test.
rights() {
	outcome=pass
	go run -C tools ./rbaccheck -mode "$1" -role "$root/$2" -exceptions "$root/tools/rbaccheck/exceptions.yaml" -asked "$DYNAMO_AUDIT_DIR" ||
		{ outcome=fail; status=1; }
	echo "{\"Action\":\"$outcome\",\"Package\":\"tools/rbaccheck\",\"Test\":\"EveryRightIsUsed/$1\"}" >"$log/rights-$1.json"
}

if [ "$which" = all ] && [ "$packages" = ./... ] && [ -z "${TESTFLAGS:-}" ]; then
	DYNAMO_AUDIT_DIR=$log/audit
	export DYNAMO_AUDIT_DIR
	mkdir "$DYNAMO_AUDIT_DIR"
fi
# Two at once: each package that has a control plane fills about a core.
# shellcheck disable=SC2046,SC2086
if [ "$which" = installed ]; then
	packages=
	run test/charts 2 ./installed ./followed
elif [ "$which" = unit ]; then
	run . 2 $(needs_no_cluster)
else
	all=$(go list $packages) || status=1
	others=$(echo "$all" | grep -v -e "$alone" -e "$apart" -e "$long" || true)
	run . 2 $(echo "$others" | grep -v /test/) $(echo "$all" | grep "$long") $(echo "$others" | grep /test/)
	run . 1 $(echo "$all" | grep "$alone")
fi
if [ "$which" = all ] && [ "$packages" = ./... ] && [ -z "${TESTFLAGS:-}" ]; then
	# Beside what mostly waits, and behind it where both want a core: nothing that fuzz targets promise depends on time. A session of
	# its own can be ended as a whole.
	FUZZWORKERS=1 setsid nice -n 19 sh tools/fuzz.sh >"$log/fuzz.json" &
	fuzzing=$!
fi
if [ "$packages" = ./... ]; then
	run tools 2 ./...
	if [ "$which" = unit ]; then
		run test/charts 2 .
	else
		run test/charts 2 ./installed ./followed . # the longest first
	fi
fi
if [ -n "$fuzzing" ]; then
	wait "$fuzzing" || status=1
	fuzzing=
	! grep -q '"Action":"fail"' "$log/fuzz.json" || status=1
fi
if [ -n "${DYNAMO_AUDIT_DIR:-}" ] && [ -d "$log/audit" ]; then
	rights cluster-wide config/rbac/role.yaml
	rights restricted config/rbac/restricted/role.yaml
fi

cat "$log"/*.json 2>/dev/null | awk -v status="$status" -f tools/count.awk
exit "$status"
