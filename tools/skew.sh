#!/bin/sh
# Runs the tests of test/skew against the oldest and the newest API server that are supported, each with the operator and the
# definitions of the last release; if its definitions are still those of this tree, of the last revision that had others, because like
# with like would show nothing. Run it from the root of the repository. OLD names another revision to take them from.
set -eu

# The commit that the charts were made of which upgrades are tested from; make release writes it.
old=${OLD:-$(cat test/testdata/releases/*.commit 2>/dev/null)} || {
	echo 'skew: test/testdata/releases has no .commit file to name the last release, which make release writes; OLD names a revision' >&2
	exit 1
}
case $old in *"
"*)
	echo 'skew: test/testdata/releases has several .commit files: keep that of the last release, or name a revision with OLD' >&2
	exit 1
	;;
esac
tree=
if [ -z "${OLD:-}" ] && git diff --quiet "$old" -- config/crd/bases; then
	echo "skew: the definitions of the last release, $old, are those of this tree; looking for the last that differ" >&2
	for changed in $(git log --format=%h -- config/crd/bases); do
		! git diff --quiet "$changed^" -- config/crd/bases || continue
		if tree=$(sh tools/earlier.sh "$changed^"); then break; fi
		echo "skew: the operator of $changed^ cannot be built; trying the one before" >&2
	done
fi
DYNAMO_TEST_OLD_TREE=${tree:-$(sh tools/earlier.sh "$old")}
export DYNAMO_TEST_OLD_TREE

status=0
echo 'skew: the newest API server' >&2
PACKAGES=./test/skew sh tools/test.sh all || status=1
echo 'skew: the oldest API server, which takes minutes to build the first time' >&2
DYNAMO_TEST_OLD_API=1 PACKAGES=./test/skew TESTFLAGS='-timeout 40m' sh tools/test.sh all || status=1
exit $status
