#!/bin/sh
# Packs both charts as a version into a directory. Run it from the root of the repository.
#
#   tools/pack.sh 1.2.3 dist
#
# The version goes into every Chart.yaml, those of the parts included, because the operator calls itself by the appVersion of its own.
# Two runs give the same content, but Helm puts the time of day into the archives.
set -eu

version=${1:?usage: tools/pack.sh VERSION DIRECTORY}
directory=${2:?usage: tools/pack.sh VERSION DIRECTORY}
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
trap 'exit 130' HUP INT TERM

cp -R charts/crds charts/platform "$staged"
find "$staged" -name Chart.yaml -exec sed -i "s/0\.0\.0-dev/$version/" {} +
mkdir -p "$directory"
go tool -modfile=tools/go.mod helm package --destination "$directory" "$staged/crds" "$staged/platform"
