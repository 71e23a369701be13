package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostWheel is how many bytes a wheel may have.
const mostWheel = 20_000_000

// audit opens a wheel as pip does, and holds it against its platform: the name, the tags, the sums of its files, the
// program's format and processor, and what the program needs of the system. Most platforms cannot run the program of
// another, and this is what can be known of it there.
func audit(platform, name string, raw []byte) error {
	if len(raw) > mostWheel {
		return fmt.Errorf("%s has %d bytes; at most %d are meant", name, len(raw), mostWheel)
	}
	files, err := unzipped(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	tags, known := wheelTags[platform]
	if !known || !strings.HasSuffix(name, "-py3-none-"+strings.Join(tags, ".")+".whl") {
		return fmt.Errorf("%s is no name of a wheel for %s", name, platform)
	}
	about := strings.Join(strings.SplitN(name, "-", 3)[:2], "-") + ".dist-info/"
	for _, tag := range tags {
		if !bytes.Contains(files[about+"WHEEL"], []byte("\nTag: py3-none-"+tag+"\n")) {
			return fmt.Errorf("%s: the file WHEEL lacks the tag %s", name, tag)
		}
	}
	if err := auditRecord(files, about+"RECORD"); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	system, arch, _ := strings.Cut(platform, "/")
	libraries, err := needs(system, arch, files["unseen/bin/unseen"+exe(system)])
	if err != nil {
		return fmt.Errorf("%s: the program: %w", name, err)
	}
	for _, library := range libraries {
		if !ofSystem[system].MatchString(library) {
			return fmt.Errorf("%s: the program needs %s, which not every machine with %s has", name, library, system)
		}
	}
	return nil
}

// ofSystem are the libraries that every machine with a system has. A program for Linux needs none, and so runs with
// every C library.
var ofSystem = map[string]*regexp.Regexp{
	"linux":   regexp.MustCompile(`^$`),
	"darwin":  regexp.MustCompile(`^(/usr/lib/lib(System\.B|resolv\.9)\.dylib|/System/Library/Frameworks/.*)$`),
	"windows": regexp.MustCompile(`(?i)^(kernel32|ntdll|advapi32|ws2_32|winmm|bcryptprimitives)\.dll$`),
}

// needs returns the libraries that a program loads when it starts, if it is one for the system and the processor.
func needs(system, arch string, program []byte) ([]string, error) {
	r := bytes.NewReader(program)
	wrong := func(machine any) error { return fmt.Errorf("it is for %v, not for %s/%s", machine, system, arch) }
	switch system {
	case "linux":
		f, err := elf.NewFile(r)
		if err != nil {
			return nil, err
		}
		if f.Machine != map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch] {
			return nil, wrong(f.Machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				return nil, errors.New("it needs a dynamic linker")
			}
		}
		return f.ImportedLibraries()
	case "darwin":
		f, err := macho.NewFile(r)
		if err != nil {
			return nil, err
		}
		if f.Cpu != map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[arch] {
			return nil, wrong(f.Cpu)
		}
		return f.ImportedLibraries()
	default:
		f, err := pe.NewFile(r)
		if err != nil {
			return nil, err
		}
		if f.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || arch != "amd64" {
			return nil, wrong(fmt.Sprintf("machine %#x", f.Machine))
		}
		symbols, err := f.ImportedSymbols() // as function:library
		var libraries []string
		for _, s := range symbols {
			libraries = append(libraries, s[strings.LastIndex(s, ":")+1:])
		}
		return slices.Compact(libraries), err
	}
}

// auditRecord holds the files of a wheel against the sums and sizes in its RECORD.
func auditRecord(files map[string][]byte, record string) error {
	rows, err := csv.NewReader(bytes.NewReader(files[record])).ReadAll()
	if err != nil {
		return err
	}
	if len(rows) != len(files) {
		return fmt.Errorf("RECORD has %d rows for %d files", len(rows), len(files))
	}
	for _, row := range rows {
		body, is := files[row[0]]
		if !is {
			return fmt.Errorf("RECORD names %s, which is not there", row[0])
		}
		sum := sha256.Sum256(body)
		want := []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(body))}
		if row[0] == record {
			want = []string{record, "", ""}
		}
		if strings.Join(row, ",") != strings.Join(want, ",") {
			return fmt.Errorf("RECORD says %q, not %q", row, want)
		}
	}
	return nil
}

// unzipped returns the files of a zip archive by name.
func unzipped(raw []byte) (map[string][]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if path.Clean(f.Name) != f.Name || strings.HasPrefix(f.Name, "../") {
			return nil, fmt.Errorf("a file is called %q", f.Name)
		}
		if dir := path.Base(path.Dir(f.Name)); (dir == "bin") != (f.Mode().Perm()&0o111 != 0) {
			return nil, fmt.Errorf("%s has mode %v", f.Name, f.Mode())
		}
		files[f.Name] = body
	}
	return files, nil
}
