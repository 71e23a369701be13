#!/bin/sh
# Installs unseen @VERSION@: the program, its manual and completions for bash, zsh and fish.
# Usage: sh install.sh [--from PLACE] [--to FOLDER]
#   --from PLACE   folder or address with the files of the release (default: the address in this script, or the script's folder)
#   --to FOLDER    where bin and share are (default: $HOME/.local, or /usr/local for root)
# Nothing is installed unless the archive has the SHA-256 sum that ./release wrote into this script.
set -eu

version=@VERSION@
sums='@SUMS@'

refuse() { echo "install.sh: $*" >&2; exit 1; }

platform() {
	case "$(uname -s)" in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	*) refuse "no script for $(uname -s); unpack the archive for Windows by hand, or use pip install unseen" ;;
	esac
	case "$(uname -m)" in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) refuse "no program for $(uname -m); build it with Go, see README.md" ;;
	esac
}

sum_of() {
	if command -v sha256sum >/dev/null 2>&1; then
		line=$(sha256sum "$1")
	elif command -v shasum >/dev/null 2>&1; then
		line=$(shasum -a 256 "$1")
	elif command -v openssl >/dev/null 2>&1; then
		line=$(openssl dgst -sha256 -r "$1")
	else
		refuse "needs sha256sum, shasum or openssl to check the sum of $archive; install one of them"
	fi
	echo "${line%% *}"
}

fetch() {
	case "$from" in
	http://* | https://*)
		if command -v curl >/dev/null 2>&1; then
			curl -fsSL -o "$work/$archive" "$from/$archive" || refuse "cannot download $from/$archive"
		elif command -v wget >/dev/null 2>&1; then
			wget -qO "$work/$archive" "$from/$archive" || refuse "cannot download $from/$archive"
		else
			refuse "needs curl or wget; or download $archive by hand and give its folder with --from"
		fi
		;;
	*)
		[ -f "$from/$archive" ] ||
			refuse "no $archive in $from; give the folder or the address of the release with --from"
		cp "$from/$archive" "$work/$archive"
		;;
	esac
}

put() { # put MODE FILE FOLDER [NAME]: whole or not at all, also over a program that runs
	mkdir -p "$to/$3"
	cp "$work/$folder/$2" "$to/$3/.unseen.$$"
	chmod "$1" "$to/$3/.unseen.$$"
	mv -f "$to/$3/.unseen.$$" "$to/$3/${4:-$(basename "$2")}"
}

install() {
	from='@URL@'
	[ -n "$from" ] || from=$(dirname "$0")
	to=$HOME/.local
	[ "$(id -u)" != 0 ] || to=/usr/local
	while [ $# -gt 0 ]; do
		case "$1" in
		--from | --to) [ $# -gt 1 ] || refuse "$1 needs a value" ;;
		esac
		case "$1" in
		--from) from=$2 && shift 2 ;;
		--to) to=$2 && shift 2 ;;
		*) refuse "unexpected argument $1; usage: sh install.sh [--from PLACE] [--to FOLDER]" ;;
		esac
	done
	from=${from%/}
	platform
	folder=unseen_${version#v}_${system}_$arch
	archive=$folder.tar.gz
	want=$(printf '%s\n' "$sums" | while read -r sum name; do
		[ "$name" != "$archive" ] || echo "$sum"
	done)
	[ -n "$want" ] || refuse "this release has no program for $system/$arch; build it with Go, see README.md"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	fetch
	got=$(sum_of "$work/$archive")
	[ "$got" = "$want" ] ||
		refuse "$archive has the wrong SHA-256 sum: $got, want $want; nothing was installed, download it again"
	tar -xzf "$work/$archive" -C "$work"
	put 755 unseen bin
	for page in "$work/$folder"/man/*.1; do
		put 644 "man/$(basename "$page")" share/man/man1
	done
	put 644 completions/unseen.bash share/bash-completion/completions unseen
	put 644 completions/_unseen share/zsh/site-functions
	put 644 completions/unseen.fish share/fish/vendor_completions.d
	echo "installed unseen $version as $to/bin/unseen; start with: unseen demo"
	case ":$PATH:" in
	*":$to/bin:"*) ;;
	*) echo "$to/bin is not on your PATH; add it: export PATH=\"$to/bin:\$PATH\"" ;;
	esac
}

install "$@" # the last line: a script that was cut off installs nothing
