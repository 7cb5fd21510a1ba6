package webhooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func dumpAPIServer(t *testing.T) {
	dir := filepath.Dir(harness.AuditLog(t))
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		if strings.Contains(f, "audit") { continue }
		b, _ := os.ReadFile(f)
		for _, l := range strings.Split(string(b), "\n") {
			if strings.Contains(l, "failed calling webhook") || strings.Contains(l, "failing open") { fmt.Println("APISERVER", l) }
		}
	}
}
