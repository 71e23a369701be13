package exchange

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"unseen/internal/atomicfile"
	"unseen/internal/safetext"
)

// rejects is the list of bad records that were skipped. It lies in the scratch folder until the import is done.
type rejects struct {
	folder string
	file   *os.File
	w      *bufio.Writer
	csv    *csv.Writer
}

var rejectsHeader = []string{"file", "line", "column", "reason", "record"}

func (r *rejects) add(at Place, reason error, record []byte) error {
	if r.file == nil {
		file, err := os.Create(filepath.Join(r.folder, "rejects.csv"))
		if err != nil {
			return err
		}
		r.file, r.w = file, bufio.NewWriter(file)
		r.csv = csv.NewWriter(r.w)
		r.csv.Write(rejectsHeader)
	}
	number := func(n int) string {
		if n <= 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	record = record[:min(len(record), beginning)]
	return r.csv.Write(safetext.Cells([]string{at.File, number(at.Line), number(at.Column),
		strings.ToValidUTF8(plainReason(reason).Error(), "�"),
		strings.ToValidUTF8(string(record), "�")}))
}

// save puts the list at path, if there is anything to list.
func (r *rejects) save(path string) (written bool, err error) {
	if r.file == nil {
		return false, nil
	}
	r.csv.Flush()
	if err = errors.Join(r.csv.Error(), r.w.Flush()); err == nil {
		_, err = r.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return false, diskError(r.folder, err)
	}
	return true, atomicfile.Write(path, func(w io.Writer) error {
		_, err := io.Copy(w, r.file)
		return err
	})
}

// removeOldRejects removes a list that this program wrote, and no other file.
func removeOldRejects(path string) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	first, _ := bufio.NewReader(io.LimitReader(file, 100)).ReadString('\n')
	file.Close()
	if first == strings.Join(rejectsHeader, ",")+"\n" {
		os.Remove(path)
	}
}

func (r *rejects) close() {
	if r.file != nil {
		r.file.Close()
	}
}
