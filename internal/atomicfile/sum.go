package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// Sum is the SHA-256 of a file, which identifies it wherever it is.
func Sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
