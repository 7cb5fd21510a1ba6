#!/bin/sh
# Regenerates everything that is made from Go markers: deep copy functions, CustomResourceDefinitions, the manager role. And what
# is made of these in turn: pages of the documentation, and the parts of the charts that come from config.
# Run it from the root of the repository. All generated files are committed.
set -eu

if [ ! -f tools/generate.sh ]; then
	echo "generate.sh: run from the root of the repository" >&2
	exit 1
fi

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
trap 'exit 1' HUP INT TERM

controller_gen() {
	go tool -modfile=tools/go.mod controller-gen "$@"
}

controller_gen object:headerFile=tools/boilerplate.go.txt paths=./api/...
controller_gen crd:generateEmbeddedObjectMeta=true paths=./api/v1alpha1 output:crd:dir="$raw"

# crdpatch belongs to the tools module, so it is run from there with absolute directories.
go run -C tools ./crdpatch -in "$raw" -out "$PWD/config/crd/bases"

# Without a single marker the generator writes no role at all, which is not an error.
if grep -rqs --include='*.go' '+kubebuilder:rbac:' internal cmd; then
	controller_gen rbac:roleName=both paths='./internal/...;./cmd/...' output:rbac:dir=config/rbac/markers
fi

# The two roles are made from the markers, and further manifests of an operator of one namespace from those of all; the tests
# that compare them write them.
go test ./config/rbac ./config/webhook -run 'TheRoles|TheRestricted' -update >/dev/null

# Pages that are made from code are written by the tests that compare them.
go test ./internal/operator/config ./internal/operator/telemetry ./internal/admission ./test/perf/report -run 'Documented|TheDocumentation' -update >/dev/null

# The charts carry definitions, roles, webhooks and policies as they are in config. Curly braces in descriptions are text, not
# templates.
rm -f charts/crds/templates/*.yaml
for file in config/crd/bases/*.yaml; do
	sed 's/{{/{{ "{{" }}/g' "$file" >"charts/crds/templates/${file##*/}"
done
files=charts/platform/charts/dynamo-operator/files
cp config/rbac/role.yaml "$files/role.yaml"
cp config/rbac/restricted/role.yaml "$files/restricted-role.yaml"
cp config/rbac/planner_role.yaml "$files/planner-role.yaml"
cp config/rbac/epp_role.yaml "$files/epp-role.yaml"
cp config/rbac/metrics_reader_role.yaml "$files/metrics-reader-role.yaml"
cp config/webhook/manifests.yaml "$files/webhooks.yaml"
cp config/manager/networkpolicy.yaml "$files/networkpolicy.yaml"
cp config/manager/restricted/networkpolicy.yaml "$files/restricted-networkpolicy.yaml"
go run -C tools ./valuesdoc -charts "$PWD/charts"
