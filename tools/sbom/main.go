// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sbom writes what a Go binary is made of to standard output.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/dynamo-operator/dynamo-operator/tools/bom"
)

func main() {
	binary := flag.String("binary", "", "Go binary to describe")
	flag.Parse()
	if err := bom.Write(os.Stdout, *binary, bom.Subject{}); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}
