package main

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

// debian is a package for dpkg.
type debian struct {
	version, arch string
	time          time.Time
}

// debianVersion turns v0.1.0-dev.1 into 0.1.0~dev.1, which sorts before 0.1.0 as it should.
func debianVersion(version string) string {
	return strings.ReplaceAll(strings.TrimPrefix(version, "v"), "-", "~")
}

// layout puts the files of a release where Debian expects them.
func (d debian) layout(files []file) ([]file, error) {
	const docs = "usr/share/doc/unseen/"
	var out []file
	for _, f := range files {
		to, body := "", f.body
		var err error
		switch base := path.Base(f.name); {
		case f.name == "unseen":
			to = "usr/bin/unseen"
		case strings.HasPrefix(f.name, "man/"):
			to = "usr/share/man/man1/" + base + ".gz"
			body, err = gzipped(f.body)
		case base == "unseen.bash":
			to = "usr/share/bash-completion/completions/unseen"
		case base == "_unseen":
			to = "usr/share/zsh/vendor-completions/_unseen"
		case base == "unseen.fish":
			to = "usr/share/fish/vendor_completions.d/unseen.fish"
		case base == "unseen.service":
			to = "usr/lib/systemd/system/unseen.service"
		case base == "unseen.default":
			to = "etc/default/unseen"
		case base == "CHANGELOG.md":
			to = docs + "NEWS.gz"
			body, err = gzipped(f.body)
		case base == "README.md", base == "SECURITY.md", base == "sbom.cdx.json", base == "THIRD-PARTY-LICENSES.txt":
			to = docs + base
		}
		if err != nil {
			return nil, err
		}
		if to != "" {
			out = append(out, file{to, f.mode, body})
		}
	}
	changes, err := gzipped(fmt.Appendf(nil,
		"unseen (%s) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n -- %s  %s\n", d.version, maintainer(),
		d.time.Format(time.RFC1123Z)))
	if err != nil {
		return nil, err
	}
	return append(out,
		file{docs + "changelog.gz", 0o644, changes},
		file{docs + "copyright", 0o644, fmt.Appendf(nil, copyright, d.time.Year())},
		file{"usr/share/lintian/overrides/unseen", 0o644,
			[]byte("# one binary for every Debian release\nunseen: statically-linked-binary " +
				"[usr/bin/unseen]\n")},
	), nil
}

// maintainer is the maintainer of a package: DEBFULLNAME and DEBEMAIL, as in Debian's own tools.
func maintainer() string {
	return fmt.Sprintf("%s <%s>", cmp.Or(os.Getenv("DEBFULLNAME"), "The unseen developers"),
		cmp.Or(os.Getenv("DEBEMAIL"), "unseen@localhost"))
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: unseen

Files: *
Copyright: %d The unseen developers
License: Apache-2.0
Comment: The binary contains third-party modules; their licences are in THIRD-PARTY-LICENSES.txt beside this file.

License: Apache-2.0
 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.
`

// pack makes the .deb: an ar archive of the format's version, control files and data.
func (d debian) pack(files []file) ([]byte, error) {
	data, err := d.layout(files)
	if err != nil {
		return nil, err
	}
	data = sorted(data)
	var sums bytes.Buffer
	size := 0
	for _, f := range data {
		size += (len(f.body) + 1023) / 1024
		if !strings.HasPrefix(f.name, "etc/") {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.body), f.name)
		}
	}
	control := fmt.Sprintf(`Package: unseen
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Depends: adduser
Section: science
Priority: optional
Description: link recommendation that corrects for exposure
 A missing link may mean "irrelevant" or "never shown". unseen learns both
 halves from a network's links, says how far its numbers can be trusted, and
 recommends citations, friends, pages or packages, on the command line and as
 a service.
`, d.version, d.arch, maintainer(), size)
	controlTar, err := tarGzOf([]file{
		{"control", 0o644, []byte(control)},
		{"conffiles", 0o644, []byte("/etc/default/unseen\n")},
		{"md5sums", 0o644, sums.Bytes()},
		{"postinst", 0o755, []byte(postinst)},
		{"prerm", 0o755, []byte(prerm)},
		{"postrm", 0o755, []byte(postrm)},
	}, "./", d.time)
	if err != nil {
		return nil, err
	}
	dataTar, err := tarGzOf(data, "./", d.time)
	if err != nil {
		return nil, err
	}
	return ar(d.time, file{"debian-binary", 0o644, []byte("2.0\n")}, file{"control.tar.gz", 0o644, controlTar},
		file{"data.tar.gz", 0o644, dataTar}), nil
}

// ar packs files in the format of the Unix tool ar, which .deb uses.
func ar(when time.Time, files ...file) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", f.name, when.Unix(), 0, 0, 0o100000|f.mode, len(f.body))
		if b.Write(f.body); len(f.body)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// The service has a user and a folder of its own. It is not started, since there is nothing to serve yet.
const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
	if ! getent passwd unseen >/dev/null; then
		adduser --system --group --quiet --home /var/lib/unseen --no-create-home --gecos "unseen" unseen
	fi
	if [ ! -d /var/lib/unseen ]; then
		install -d -m 0750 -o unseen -g unseen /var/lib/unseen
	fi
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload || true
		deb-systemd-invoke try-restart unseen.service || true
	fi
fi
`

const prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop unseen.service || true
fi
`

// What the service learned and logged stays, unless the folder is empty.
const postrm = `#!/bin/sh
set -e
if [ "$1" = purge ]; then
	rm -f /etc/systemd/system/multi-user.target.wants/unseen.service
	if [ -d /var/lib/unseen ] && ! rmdir /var/lib/unseen 2>/dev/null; then
		echo "unseen: /var/lib/unseen is not empty and was kept, with the user unseen; remove both by hand if unneeded"
	elif getent passwd unseen >/dev/null; then
		deluser --system --quiet unseen || true
	fi
fi
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload || true
fi
`
