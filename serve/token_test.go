package serve

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A file of tokens made by root, and a service that is not: the error says whose the file has to be.
func TestTokensOfAnother(t *testing.T) {
	t.Parallel()
	denied := &fs.PathError{Op: "open", Path: "tokens.json", Err: os.ErrPermission}
	if err := explainUnreadable(denied, 65532); !strings.Contains(err.Error(), "tokens.json") ||
		!strings.Contains(err.Error(), "chown 65532 the file") {
		t.Error(err)
	}
	if err := explainUnreadable(denied, -1); err != error(denied) { // Windows has no such users
		t.Error(err)
	}
	if _, err := OpenTokens("missing.json"); err == nil || strings.Contains(err.Error(), "chown") {
		t.Error(err)
	}
}
