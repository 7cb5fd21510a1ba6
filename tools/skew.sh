#!/bin/sh
# Runs the tests of test/skew against the oldest and the newest API server that are supported, each with an earlier operator and its
# definitions. Run it from the root of the repository. OLD names the revision to take them from: the latest release, or else one
# from before the last change of the definitions.
set -eu

old=${OLD:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || echo 7a8be1e)}
DYNAMO_TEST_OLD_TREE=$(sh tools/earlier.sh "$old")
export DYNAMO_TEST_OLD_TREE

status=0
echo 'skew: the newest API server' >&2
PACKAGES=./test/skew sh tools/test.sh all || status=1
echo 'skew: the oldest API server, which takes minutes to build the first time' >&2
DYNAMO_TEST_OLD_API=1 PACKAGES=./test/skew TESTFLAGS='-timeout 40m' sh tools/test.sh all || status=1
exit $status
