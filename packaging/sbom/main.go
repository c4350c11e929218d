// Command sbom writes the software bill of materials of Go programs to standard output,
// as SPDX 2.3 in JSON: each module that the linker put into one of them, by the build
// information in the programs. SOURCE_DATE_EPOCH is the date of the document.
//
// Reference: https://spdx.github.io/spdx-spec/v2.3/
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION PROGRAM...")
		os.Exit(2)
	}
	d, err := bill(os.Args[1], os.Getenv("SOURCE_DATE_EPOCH"), os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(d); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// A pkg is a program or a module. What nobody has looked at is NOASSERTION.
type pkg struct {
	Name      string     `json:"name"`
	ID        string     `json:"SPDXID"`
	Version   string     `json:"versionInfo"`
	Download  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	Concluded string     `json:"licenseConcluded"`
	Declared  string     `json:"licenseDeclared"`
	Copyright string     `json:"copyrightText"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []ref      `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// bill returns the document of programs, which all have one version. An empty epoch is
// 1970. Equal programs have equal documents.
func bill(version, epoch string, programs []string) (document, error) {
	seconds, err := strconv.ParseInt("0"+epoch, 10, 64)
	if err != nil {
		return document{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", epoch)
	}
	d := document{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "gpurig-" + version,
		Creation: creation{time.Unix(seconds, 0).UTC().Format(time.RFC3339), []string{"Tool: gpurig-sbom"}}}
	modules := map[string]pkg{}
	all := sha256.New()
	for _, file := range programs {
		data, err := os.ReadFile(file)
		if err != nil {
			return document{}, err
		}
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return document{}, fmt.Errorf("%s: %w", file, err)
		}
		all.Write(data)
		p := newPkg(filepath.Base(file), version, "Apache-2.0", "")
		p.Checksums = []checksum{{"SHA256", fmt.Sprintf("%x", sha256.Sum256(data))}}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{d.ID, "DESCRIBES", p.ID})
		deps := []pkg{newPkg("std", strings.TrimPrefix(info.GoVersion, "go"), unknown, "pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go"))}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			deps = append(deps, newPkg(m.Path, m.Version, unknown, "pkg:golang/"+m.Path+"@"+m.Version))
		}
		for _, m := range deps {
			modules[m.ID] = m
			d.Relationships = append(d.Relationships, relationship{p.ID, "DEPENDS_ON", m.ID})
		}
	}
	d.Packages = append(d.Packages, slices.SortedFunc(maps.Values(modules), func(a, b pkg) int { return cmp.Compare(a.ID, b.ID) })...)
	d.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/%s-%x", d.Name, all.Sum(nil)[:16])
	return d, nil
}

// outsideID matches what an SPDX identifier cannot have.
var outsideID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func newPkg(name, version, license, purl string) pkg {
	id := "SPDXRef-" + outsideID.ReplaceAllString(name+"-"+version, "-")
	p := pkg{Name: name, ID: id, Version: version, Download: unknown, Concluded: unknown, Declared: license, Copyright: unknown}
	if purl != "" {
		p.Refs = []ref{{"PACKAGE-MANAGER", "purl", purl}}
	}
	return p
}
