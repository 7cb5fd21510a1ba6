#!/bin/sh
# Runs the tests of both modules and ends with one line, "N passed, N failed". Run it from the root of the repository.
#
#   tools/test.sh all     every test
#   tools/test.sh unit    only tests that start no cluster
#
# PACKAGES (default ./...) and TESTFLAGS are handed on to go test.
set -eu

which=${1:-all}
packages=${PACKAGES:-./...}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
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

status=0
# run tests one module: its directory, then what to test.
# -count=1: a cached result says nothing about a cluster. -p 2: each package that has a control plane fills about a core.
# -parallel 8: tests on a cluster mostly wait for it.
run() {
	module=$1
	shift
	name=$(basename "$module" | tr . m)
	(cd "$module" && go tool -modfile="$root/tools/go.mod" gotestsum \
		--format pkgname --format-icons text --format-hide-empty-pkg --hide-summary skipped --jsonfile "$log/$name.json" \
		-- -race -count=1 -p 2 -parallel 8 -timeout 20m ${TESTFLAGS:-} "$@") || status=1
}
root=$PWD

# rights compares what operators asked of their API servers with the role they have, which only all tests together can tell.
# It counts as one test.
rights() {
	outcome=pass
	go run -C tools ./rbaccheck -role "$root/config/rbac/role.yaml" -exceptions "$root/tools/rbaccheck/exceptions.yaml" -asked "$DYNAMO_AUDIT_DIR" ||
		{ outcome=fail; status=1; }
	echo "{\"Action\":\"$outcome\",\"Package\":\"tools/rbaccheck\",\"Test\":\"EveryRightIsUsed\"}" >"$log/rights.json"
}

if [ "$which" = all ] && [ "$packages" = ./... ] && [ -z "${TESTFLAGS:-}" ]; then
	DYNAMO_AUDIT_DIR=$log/audit
	export DYNAMO_AUDIT_DIR
	mkdir "$DYNAMO_AUDIT_DIR"
fi
if [ "$which" = unit ]; then
	# shellcheck disable=SC2046
	run . $(needs_no_cluster)
else
	# shellcheck disable=SC2086
	run . $packages
fi
if [ "$packages" = ./... ]; then
	run tools ./...
fi
if [ "$which" = all ] && [ "$packages" = ./... ] && [ -z "${TESTFLAGS:-}" ]; then
	sh tools/fuzz.sh >"$log/fuzz.json" || status=1
	! grep -q '"Action":"fail"' "$log/fuzz.json" || status=1
fi
if [ -n "${DYNAMO_AUDIT_DIR:-}" ] && [ -d "$log/audit" ]; then
	rights
fi

cat "$log"/*.json 2>/dev/null | awk -v status="$status" -f tools/count.awk
exit "$status"
