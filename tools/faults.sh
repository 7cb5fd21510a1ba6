#!/bin/sh
# Runs the fault suite and ends with one line, "N faults injected". Run it from the root of the repository.
#
#   tools/faults.sh full   every fault at every place, in parts that can be taken up again
#   tools/faults.sh soak   a crowd that is left alone for IDLE (default 10m) and deleted at once; CROWD (default 1000) is its size;
#                          fights over 20 graphs each, PARALLEL (default 8) at a time, for FIGHT (default 5m); neighbours of
#                          graphs that fail for BESIDE (default 5m); replicas restarted for ROLLING (default 5m); then, in a
#                          process of its own, faults at random for DURATION (default 2h) with GRAPHS (default 200)
#
# SHARD (i/n) runs one part of n. LEDGER keeps what was done; a second run with the same one runs only what is missing.
# Both store their results in docs if all of it passed, a full run without SHARD, a soak what is as large as is asked for (see
# test/faults/tables.go); each keeps the rows of the other. BINARY and ARGUMENTS name another operator to be driven as a black box; its
# results are not stored.
set -eu

which=${1:-full}
shard=${SHARD:-1/1}
begin=$(date +%s)

# absolute makes a path one that means the same to a test, which runs where its package is.
absolute() {
	case $1 in
	'' | /*) echo "$1" ;;
	*) echo "$PWD/$1" ;;
	esac
}
ledger=$(absolute "${LEDGER:-}")
binary=$(absolute "${BINARY:-}")
case $ledger in
"$PWD"/*)
	# What is kept there would change what is tested, and so what results count for.
	echo "faults.sh: LEDGER is in the repository; name a file elsewhere, such as LEDGER=/tmp/faults" >&2
	exit 2
	;;
esac

isFresh=
if [ -z "$ledger" ] || [ ! -s "$ledger" ]; then
	isFresh=1
fi
if [ -z "$ledger" ]; then
	ledger=$(mktemp)
	# What failed, or was broken off, is worth keeping: with the same ledger the next run does only what is missing.
	trap 'test "${passed:-0}" = 1 && rm -f "$ledger" || echo "faults.sh: what was done is in $ledger; run again with LEDGER=$ledger" >&2' EXIT
fi
trap 'exit 130' HUP INT TERM

# Results count for what they were seen with: a commit, what is not committed, and another's program with its arguments. The documents,
# in which results are kept, have no part in it.
tested=". :!docs"
# shellcheck disable=SC2086 # two words
commit=$(git log -1 --format=%h -- $tested 2>/dev/null || echo unknown)
# shellcheck disable=SC2086
if [ -n "$(git status --porcelain -- $tested 2>/dev/null)" ]; then
	commit=$commit-changed-$({
		git diff HEAD -- $tested
		git ls-files --others --exclude-standard -z -- $tested | xargs -0 cat
	} | git hash-object --stdin)
fi
[ -z "$binary" ] || commit=$commit-$({ cat "$binary"; echo "${ARGUMENTS:-}"; } | git hash-object --stdin)

status=0
case $which in
full)
	# -parallel: stories mostly wait for the cluster.
	go test ./test/faults -count=1 -timeout 90m -parallel "${PARALLEL:-40}" -args -faults.full -faults.shard="$shard" \
		-faults.results="$ledger" -faults.commit="$commit" -faults.run=full -faults.binary="$binary" -faults.args="${ARGUMENTS:-}" >&2 || status=1
	;;
soak)
	if [ -n "$binary" ]; then
		echo 'faults.sh: a soak asks for what only our own operator says and counts; make test-faults drives others' >&2
		exit 2
	fi
	# -parallel: fights mostly wait. What else measures runs beside nothing.
	go test ./test/faults -count=1 -timeout 0 -parallel "${PARALLEL:-8}" \
		-run 'TestACrowdCostsNothing|TestACrowdThatIsFoundInEtcd|TestANamespaceGoes|TestAFightIsNotEscalated|TestNeighboursOfAFailingGraph|TestNoRequestFails' -args -faults.full \
		-faults.results="$ledger" -faults.commit="$commit" -faults.run=soak -faults.crowd="${CROWD:-1000}" -faults.idle="${IDLE:-10m}" \
		-faults.fighting=20 -faults.fight="${FIGHT:-5m}" -faults.beside="${BESIDE:-5m}" -faults.rolling="${ROLLING:-5m}" >&2 || status=1
	# The heap of a process is measured, so that nothing of the others may be in it.
	go test ./test/faults -count=1 -timeout 0 -run TestNothingIsStuckAfterFaultsAtRandom -args -faults.full \
		-faults.results="$ledger" -faults.commit="$commit" -faults.run=soak -faults.soak="${DURATION:-2h}" -faults.graphs="${GRAPHS:-200}" -faults.seed="${SEED:-1}" >&2 || status=1
	;;
*)
	echo "faults.sh: there is no $which; say full or soak" >&2
	exit 2
	;;
esac

minutes=$((($(date +%s) - begin + 59) / 60))
echo "faults.sh: after $minutes minutes" >&2
[ -n "$isFresh" ] || minutes=0
if [ "$shard" = 1/1 ] && [ -z "$binary" ] && [ "$status" = 0 ]; then
	go run ./test/faults/report -ledger "$ledger" -commit "$commit" -run "$which" -minutes "$minutes" || status=1
else
	go run ./test/faults/report -ledger "$ledger" -commit "$commit" -run "$which" -count || status=1
fi
[ "$status" != 0 ] || passed=1
exit "$status"
