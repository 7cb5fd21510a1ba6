#!/bin/sh
# Says what this machine lacks before minutes are spent on building. Run it from the root of the repository.
set -eu

missing=0
lack() {
	echo "missing: $*" >&2
	missing=1
}

needed=$(awk '$1 == "go" { print $2; exit }' go.mod)
if command -v go >/dev/null; then
	# With GOTOOLCHAIN=local the go command refuses to fetch a newer release, so this is the version that is installed.
	installed=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
	[ -n "$installed" ] || installed=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
	oldest=$(printf '%s\n%s\n' "$needed" "${installed#go}" | sort -V | head -n 1)
	[ "$oldest" = "$needed" ] || lack "Go $needed or newer; this is ${installed#go}. See https://go.dev/dl"
	compiler=$(cd / && go env CC)
	command -v "${compiler%% *}" >/dev/null ||
		lack "a C compiler (looked for $compiler; the race detector needs it). On Debian: apt-get install gcc libc6-dev"
else
	lack "Go $needed or newer. See https://go.dev/dl"
fi
command -v git >/dev/null || lack "git"
[ "$(uname -s)" = Linux ] || lack "Linux; the local cluster runs on nothing else yet"

[ "$missing" = 0 ] || exit 1
