#!/bin/sh
# Builds the operator of an earlier revision once, and prints the directory that has it: the program operator, and the definitions
# in crd. Run it from the root of the repository.
#
#   tools/earlier.sh REVISION
set -eu

revision=${1:?usage: tools/earlier.sh REVISION}
commit=$(git rev-parse --quiet --verify "$revision^{commit}") || {
	echo "earlier: the history of this repository does not have revision $revision, so that its operator cannot be built;" \
		"a clone that is not whole becomes so with git fetch --unshallow --tags" >&2
	exit 1
}
kept=${DYNAMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dynamo-operator}/earlier
if [ -d "$kept/$commit" ]; then
	echo "$kept/$commit"
	exit
fi

mkdir -p "$kept"
tree=$(mktemp -d "$kept/building.XXXXXX")
trap 'rm -rf "$tree"' EXIT
trap 'exit 130' HUP INT TERM
echo "earlier: building the operator of $revision" >&2
mkdir "$tree/source" "$tree/done"
git archive "$commit" | tar -x -C "$tree/source"
(cd "$tree/source" && go build -buildvcs=false -o "$tree/done/operator" ./cmd/operator)
mv "$tree/source/config/crd/bases" "$tree/done/crd"
# Whoever comes second finds the directory taken, by the same program.
mv -T "$tree/done" "$kept/$commit" 2>/dev/null || [ -d "$kept/$commit" ]
echo "$kept/$commit"
