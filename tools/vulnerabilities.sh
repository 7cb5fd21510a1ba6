#!/bin/sh
# Fails on known vulnerabilities that our code reaches. The database is on the internet; where it cannot be had, that is said
# and nothing is claimed. Run it from the root of the repository.
set -eu

said=$(mktemp)
trap 'rm -f "$said"' EXIT
trap 'exit 130' HUP INT TERM

# The address of the database is in the message of every failure to reach it.
database='vuln\.go\.dev'
status=0
for module in . tools test/charts; do
	if go tool -modfile="$PWD/tools/go.mod" govulncheck -C "$module" ./... >"$said" 2>&1; then
		echo "vulnerabilities: none that module $module reaches" >&2
	elif grep -q "$database" "$said" && ! grep -q '^Vulnerability #' "$said"; then
		echo "vulnerabilities: the database of known vulnerabilities cannot be reached; module $module was not checked" >&2
	else
		cat "$said" >&2
		status=1
	fi
done
exit "$status"
