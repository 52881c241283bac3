package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strconv"
	"time"
)

// A case: the trusted certificates, and what a client presents, leaf first.
type testCase struct {
	name    string
	bundle  [][]byte
	chain   [][]byte
	key     crypto.Signer
	version uint16
}

// A certificate with its key.
type issuer struct {
	der         []byte
	certificate *x509.Certificate
	key         crypto.Signer
}

// The changes of a certificate before it is signed.
type spec struct {
	template  x509.Certificate
	key       crypto.Signer
	change    func(*tbsCertificate)
	changeDER func([]byte) []byte
}

type option func(*spec)

type tbsCertificate struct {
	Version            int `asn1:"optional,explicit,default:0,tag:0"`
	SerialNumber       *big.Int
	SignatureAlgorithm pkix.AlgorithmIdentifier
	Issuer             asn1.RawValue
	Validity           asn1.RawValue
	Subject            asn1.RawValue
	PublicKey          asn1.RawValue
	Extensions         []pkix.Extension `asn1:"omitempty,optional,explicit,tag:3"`
}

type signedCertificate struct {
	TBS                asn1.RawValue
	SignatureAlgorithm pkix.AlgorithmIdentifier
	Signature          asn1.BitString
}

func newKey(kind string) crypto.Signer {
	switch kind {
	case "P224":
		return check(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	case "P256":
		return check(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	case "P384":
		return check(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	case "P521":
		return check(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	case "Ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return check(key, err)
	default:
		return check(rsa.GenerateKey(rand.Reader, check(strconv.Atoi(kind))))
	}
}

func date(year int) time.Time {
	return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
}

var serial int64 = 1000

// Issues a certificate; without a parent it signs itself.
func issue(parent *issuer, subject pkix.Name, options ...option) *issuer {
	serial++
	made := spec{template: x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: subject, NotBefore: date(2000), NotAfter: date(2100),
	}}
	for _, each := range options {
		each(&made)
	}
	if made.key == nil {
		made.key = newKey("P256")
	}
	signer, above := made.key, &made.template
	if parent != nil {
		signer, above = parent.key, parent.certificate
	}
	der, err := x509.CreateCertificate(rand.Reader, &made.template, above, made.key.Public(), signer)
	if err != nil {
		panic(fmt.Sprintf("%v: %v", subject, err))
	}
	if made.change != nil {
		der = resign(der, signer, made.change)
	}
	if made.changeDER != nil {
		der = made.changeDER(der)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		// The parent of others needs only these.
		certificate = &x509.Certificate{Subject: subject, RawSubject: nil, PublicKey: made.key.Public()}
	}
	return &issuer{der, certificate, made.key}
}

func resign(der []byte, signer crypto.Signer, change func(*tbsCertificate)) []byte {
	var signed signedCertificate
	check(asn1.Unmarshal(der, &signed))
	var tbs tbsCertificate
	check(asn1.Unmarshal(signed.TBS.FullBytes, &tbs))
	change(&tbs)
	raw := check(asn1.Marshal(tbs))
	digest, hash := raw, crypto.Hash(0)
	if _, ok := signer.(ed25519.PrivateKey); !ok {
		sum := sha256.Sum256(raw)
		digest, hash = sum[:], crypto.SHA256
	}
	signature := check(signer.Sign(rand.Reader, digest, hash))
	signed.TBS = asn1.RawValue{FullBytes: raw}
	signed.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	return check(asn1.Marshal(signed))
}

func with(change func(*x509.Certificate)) option {
	return func(made *spec) { change(&made.template) }
}

func keyed(kind string) option {
	return func(made *spec) { made.key = newKey(kind) }
}

func keyOf(other *issuer) option {
	return func(made *spec) { made.key = other.key }
}

func raw(change func(*tbsCertificate)) option {
	return func(made *spec) { made.change = change }
}

func bytesOf(change func([]byte) []byte) option {
	return func(made *spec) { made.changeDER = change }
}

// The version, without extensions.
func version(number int) option {
	return raw(func(tbs *tbsCertificate) { tbs.Version, tbs.Extensions = number-1, nil })
}

func isCA(certificate *x509.Certificate) {
	certificate.BasicConstraintsValid, certificate.IsCA, certificate.MaxPathLen = true, true, -1
	certificate.KeyUsage = x509.KeyUsageCertSign
}

var authority = with(isCA)

func pathLength(length int) option {
	return with(func(certificate *x509.Certificate) {
		certificate.MaxPathLen, certificate.MaxPathLenZero = length, length == 0
	})
}

func usage(usage x509.KeyUsage) option {
	return with(func(certificate *x509.Certificate) { certificate.KeyUsage = usage })
}

func extended(usages ...x509.ExtKeyUsage) option {
	return with(func(certificate *x509.Certificate) { certificate.ExtKeyUsage = usages })
}

func unknownUsage(certificate *x509.Certificate) {
	certificate.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3, 4}}
}

func validity(from, to int) option {
	return with(func(certificate *x509.Certificate) {
		certificate.NotBefore, certificate.NotAfter = date(from), date(to)
	})
}

func algorithm(algorithm x509.SignatureAlgorithm) option {
	return with(func(certificate *x509.Certificate) { certificate.SignatureAlgorithm = algorithm })
}

func extension(id asn1.ObjectIdentifier, critical bool, value []byte) option {
	return with(func(certificate *x509.Certificate) {
		certificate.ExtraExtensions = append(certificate.ExtraExtensions, pkix.Extension{Id: id, Critical: critical, Value: value})
	})
}

func withoutExtension(id asn1.ObjectIdentifier) option {
	return raw(func(tbs *tbsCertificate) {
		kept := tbs.Extensions[:0]
		for _, each := range tbs.Extensions {
			if !each.Id.Equal(id) {
				kept = append(kept, each)
			}
		}
		tbs.Extensions = kept
	})
}

func dns(names ...string) option {
	return with(func(certificate *x509.Certificate) { certificate.DNSNames = names })
}

func emails(names ...string) option {
	return with(func(certificate *x509.Certificate) { certificate.EmailAddresses = names })
}

func ips(names ...string) option {
	return with(func(certificate *x509.Certificate) {
		for _, name := range names {
			ip := net.ParseIP(name)
			if four := ip.To4(); four != nil {
				ip = four
			}
			certificate.IPAddresses = append(certificate.IPAddresses, ip)
		}
	})
}

func uris(names ...string) option {
	return with(func(certificate *x509.Certificate) {
		for _, name := range names {
			certificate.URIs = append(certificate.URIs, check(url.Parse(name)))
		}
	})
}

func network(text string) *net.IPNet {
	_, made, err := net.ParseCIDR(text)
	return check(made, err)
}

// The subject from raw attributes: the tag of a text, and its bytes.
type attribute struct {
	id    asn1.ObjectIdentifier
	tag   int
	value []byte
}

func subject(attributes ...attribute) option {
	return raw(func(tbs *tbsCertificate) {
		var sets []asn1.RawValue
		for _, each := range attributes {
			pair := check(asn1.Marshal(struct {
				ID    asn1.ObjectIdentifier
				Value asn1.RawValue
			}{each.id, asn1.RawValue{Tag: each.tag, Bytes: each.value}}))
			sets = append(sets, asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: pair})
		}
		tbs.Subject = asn1.RawValue{FullBytes: check(asn1.Marshal(sets))}
	})
}

var (
	commonName       = asn1.ObjectIdentifier{2, 5, 4, 3}
	organization     = asn1.ObjectIdentifier{2, 5, 4, 10}
	uid              = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
	keyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	subjectNames     = asn1.ObjectIdentifier{2, 5, 29, 17}
	basicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	nameConstraints  = asn1.ObjectIdentifier{2, 5, 29, 30}
	extendedUsage    = asn1.ObjectIdentifier{2, 5, 29, 37}
	policyLimits     = asn1.ObjectIdentifier{2, 5, 29, 36}
	policies         = asn1.ObjectIdentifier{2, 5, 29, 32}
	subjectKeyID     = asn1.ObjectIdentifier{2, 5, 29, 14}
	authorityKeyID   = asn1.ObjectIdentifier{2, 5, 29, 35}
	unknown          = asn1.ObjectIdentifier{1, 2, 3, 4, 5}
)

type builder struct {
	made []*testCase
	name string
}

// The name of an authority, which no other case has.
func (b *builder) ca(name string) pkix.Name {
	return pkix.Name{CommonName: b.name + ": " + name}
}

var alice = pkix.Name{CommonName: "alice", Organization: []string{"dev"}}

func (b *builder) root(options ...option) *issuer {
	return issue(nil, b.ca("root"), append([]option{authority}, options...)...)
}

func (b *builder) middle(parent *issuer, name string, options ...option) *issuer {
	return issue(parent, b.ca(name), append([]option{authority}, options...)...)
}

func leaf(parent *issuer, options ...option) *issuer {
	return issue(parent, alice, append([]option{extended(x509.ExtKeyUsageClientAuth)}, options...)...)
}

func (b *builder) add(bundle []*issuer, chain ...*issuer) *testCase {
	made := &testCase{name: b.name, key: chain[0].key}
	for _, each := range bundle {
		made.bundle = append(made.bundle, each.der)
	}
	for _, each := range chain {
		made.chain = append(made.chain, each.der)
	}
	b.made = append(b.made, made)
	return made
}

func trusting(roots ...*issuer) []*issuer { return roots }

func cases() []*testCase {
	b := &builder{}
	// A case of one root and one leaf.
	pair := func(name string, ofRoot, ofLeaf []option) {
		b.name = name
		root := b.root(ofRoot...)
		b.add(trusting(root), leaf(root, ofLeaf...))
	}
	// A case of a root, a presented intermediate certificate and a leaf.
	three := func(name string, ofRoot, ofMiddle, ofLeaf []option) {
		b.name = name
		root := b.root(ofRoot...)
		middle := b.middle(root, "middle", ofMiddle...)
		b.add(trusting(root), leaf(middle, ofLeaf...), middle)
	}
	none := []option(nil)

	pair("a leaf of an authority", none, none)
	versions(b, pair, three)
	basic(b, pair, three)
	usages(pair, three)
	lengths(b, pair, three)
	constraints(pair, three)
	times(b, pair, three)
	algorithms(b, pair)
	structure(b, pair, three)
	encodings(b, pair, three)
	names(pair)

	pair("an explicit policy is required, and there is none", none, some(
		extension(policyLimits, true, []byte{0x30, 3, 0x80, 1, 0})))
	pair("an explicit policy is required of the root alone", some(extension(policyLimits, true, []byte{0x30, 3, 0x80, 1, 0})), none)
	pair("an explicit policy is required, and there is one", none, some(
		extension(policyLimits, true, []byte{0x30, 3, 0x80, 1, 0}),
		extension(policies, false, []byte{0x30, 6, 0x30, 4, 6, 2, 0x2a, 3})))
	pair("policies", none, some(extension(policies, true, []byte{0x30, 6, 0x30, 4, 6, 2, 0x2a, 3})))
	pair("a policy twice", none, some(
		extension(policies, false, []byte{0x30, 12, 0x30, 4, 6, 2, 0x2a, 3, 0x30, 4, 6, 2, 0x2a, 3})))
	return b.made
}

type pairs = func(string, []option, []option)
type threes = func(string, []option, []option, []option)

func some(options ...option) []option { return options }

func versions(b *builder, pair pairs, three threes) {
	pair("version 1", nil, some(version(1)))
	pair("version 1 with an RSA key", nil, some(keyed("2048"), version(1)))
	pair("version 2", nil, some(version(2)))
	pair("version 1, expired", nil, some(validity(2000, 2010), version(1)))
	pair("a root of version 1", some(version(1)), nil)
	pair("a root of version 2", some(version(2)), nil)
	pair("root and leaf of version 1", some(version(1)), some(version(1)))
	pair("an expired root of version 1", some(validity(2000, 2010), version(1)), nil)
	three("an intermediate certificate of version 1", nil, some(version(1)), nil)
	three("a leaf of version 1 below an intermediate certificate", nil, nil, some(version(1)))
	b.name = "version 1, itself trusted"
	own := issue(nil, alice, version(1))
	b.add(trusting(own), own)
	b.name = "version 1, signed by another key"
	root, other := b.root(), b.root()
	b.add(trusting(root), leaf(other, version(1)))
	b.name = "version 1 in TLS 1.2"
	root = b.root()
	b.add(trusting(root), leaf(root, version(1))).version = tls.VersionTLS12
	b.name = "version 1 with an RSA key in TLS 1.2"
	root = b.root()
	b.add(trusting(root), leaf(root, keyed("2048"), version(1))).version = tls.VersionTLS12
	pair("version 4", nil, some(raw(func(tbs *tbsCertificate) { tbs.Version = 3 })))
	pair("version 1 with extensions", nil, some(raw(func(tbs *tbsCertificate) { tbs.Version = 0 })))
}

func basic(b *builder, pair pairs, three threes) {
	noAuthority := with(func(certificate *x509.Certificate) { certificate.IsCA = false })
	pair("a root that is no authority", some(noAuthority), nil)
	pair("a root without basic constraints", some(withoutExtension(basicConstraints)), nil)
	pair("a root whose basic constraints are empty", some(with(func(certificate *x509.Certificate) {
		certificate.BasicConstraintsValid = false
		certificate.ExtraExtensions = append(certificate.ExtraExtensions, pkix.Extension{Id: basicConstraints, Value: []byte{0x30, 0}})
	})), nil)
	three("an intermediate certificate that is no authority", nil, some(noAuthority), nil)
	three("an intermediate certificate without basic constraints", nil, some(withoutExtension(basicConstraints)), nil)
	pair("a leaf that is an authority", nil, some(authority))
	b.name = "a certificate of a server in the bundle signs"
	server := issue(b.root(), b.ca("server"), extended(x509.ExtKeyUsageServerAuth), usage(x509.KeyUsageDigitalSignature),
		with(func(certificate *x509.Certificate) { certificate.BasicConstraintsValid = true }))
	b.add(trusting(server), leaf(server))
	b.name = "a trusted leaf"
	own := issue(nil, alice, extended(x509.ExtKeyUsageClientAuth))
	b.add(trusting(own), own)
	b.name = "a trusted leaf signs another"
	own = issue(nil, b.ca("leaf"), extended(x509.ExtKeyUsageClientAuth))
	b.add(trusting(own), leaf(own))
	b.name = "a trusted leaf beside one with its name and key"
	own = issue(nil, alice, extended(x509.ExtKeyUsageClientAuth))
	b.add(trusting(own), issue(nil, alice, extended(x509.ExtKeyUsageClientAuth), keyOf(own)))
	b.name = "a trusted leaf for servers"
	own = issue(nil, alice, extended(x509.ExtKeyUsageServerAuth))
	b.add(trusting(own), own)
	b.name = "a trusted leaf, expired"
	own = issue(nil, alice, validity(2000, 2010))
	b.add(trusting(own), own)
	b.name = "a trusted leaf of an unknown authority"
	own = leaf(b.root())
	b.add(trusting(own), own)
	b.name = "a trusted authority as a client"
	own = issue(nil, alice, authority)
	b.add(trusting(own), own)
	b.name = "a trusted authority that is not signed by itself"
	middle := b.middle(b.root(), "middle")
	b.add(trusting(middle), leaf(middle))
	b.name = "a trusted authority below an expired one"
	root := b.root(validity(2000, 2010))
	middle = b.middle(root, "middle")
	b.add(trusting(root, middle), leaf(middle))
}

func usages(pair pairs, three threes) {
	client, server, everything, code := x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny, x509.ExtKeyUsageCodeSigning
	pair("a root that may not sign certificates", some(usage(x509.KeyUsageDigitalSignature)), nil)
	pair("a root that may sign certificates and more", some(usage(x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign)), nil)
	pair("a root without key usage", some(usage(0)), nil)
	pair("a root whose key usage has no bit", some(usage(0), extension(keyUsage, true, []byte{3, 1, 0})), nil)
	pair("a root that only signs revocation lists", some(usage(x509.KeyUsageCRLSign)), nil)
	three("an intermediate certificate that may not sign certificates", nil, some(usage(x509.KeyUsageDigitalSignature)), nil)
	pair("a leaf that only enciphers keys", nil, some(usage(x509.KeyUsageKeyEncipherment)))
	pair("a leaf without extended usage", nil, some(extended()))
	pair("a leaf with an empty extended usage", nil, some(extended(), extension(extendedUsage, false, []byte{0x30, 0})))
	pair("a leaf for servers", nil, some(extended(server)))
	pair("a leaf for servers and clients", nil, some(extended(server, client)))
	pair("a leaf for any usage", nil, some(extended(everything)))
	pair("a leaf for code", nil, some(extended(code)))
	pair("a leaf for an unknown usage", nil, some(extended(), with(unknownUsage)))
	pair("a leaf for clients and an unknown usage", nil, some(with(unknownUsage)))
	pair("a root for servers", some(extended(server)), nil)
	pair("a root for clients", some(extended(client)), nil)
	pair("a root for any usage", some(extended(everything)), nil)
	pair("a root for an unknown usage", some(with(unknownUsage)), nil)
	pair("a root for servers, a leaf for any usage", some(extended(server)), some(extended(everything)))
	pair("a root for servers, a leaf without extended usage", some(extended(server)), some(extended()))
	three("an intermediate certificate for servers", nil, some(extended(server)), nil)
	three("an intermediate certificate for clients", nil, some(extended(client)), nil)
	three("an intermediate certificate for any usage", nil, some(extended(everything)), nil)
	three("an intermediate certificate for clients below a root for servers", some(extended(server)), some(extended(client)), nil)
}

func lengths(b *builder, pair pairs, three threes) {
	pair("path length 0, a leaf", some(pathLength(0)), nil)
	three("path length 0, an intermediate certificate", some(pathLength(0)), nil, nil)
	three("path length 1, an intermediate certificate", some(pathLength(1)), nil, nil)
	three("path length 0 of an intermediate certificate, a leaf", nil, some(pathLength(0)), nil)
	b.name = "path length 1, two intermediate certificates"
	root := b.root(pathLength(1))
	upper := b.middle(root, "upper")
	lower := b.middle(upper, "lower")
	b.add(trusting(root), leaf(lower), lower, upper)
	b.name = "path length 0 of an intermediate certificate, another below it"
	root = b.root()
	upper = b.middle(root, "upper", pathLength(0))
	lower = b.middle(upper, "lower")
	b.add(trusting(root), leaf(lower), lower, upper)
	b.name = "path length 0, an intermediate certificate of the root's own name"
	root = b.root(pathLength(0))
	own := b.middle(root, "root")
	b.add(trusting(root), leaf(own), own)
	b.name = "path length 1, two intermediate certificates of one name"
	root = b.root(pathLength(1))
	upper = b.middle(root, "middle")
	lower = b.middle(upper, "middle")
	b.add(trusting(root), leaf(lower), lower, upper)
	b.name = "path length 0, a trusted authority below it"
	root = b.root(pathLength(0))
	upper = b.middle(root, "upper")
	b.add(trusting(root, upper), leaf(upper))
}

func constraints(pair pairs, three threes) {
	constrained := func(change func(*x509.Certificate)) []option {
		return some(with(func(certificate *x509.Certificate) {
			certificate.PermittedDNSDomainsCritical = true
			change(certificate)
		}))
	}
	permit := constrained(func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} })
	exclude := constrained(func(c *x509.Certificate) { c.ExcludedDNSDomains = []string{"a.example.com"} })
	pair("a permitted domain, no name", permit, nil)
	pair("a permitted domain, its name", permit, some(dns("example.com")))
	pair("a permitted domain, a name below it", permit, some(dns("a.Example.COM")))
	pair("a permitted domain, another name", permit, some(dns("example.org")))
	pair("a permitted domain, a name that ends alike", permit, some(dns("anexample.com")))
	pair("a permitted domain, a good and a bad name", permit, some(dns("a.example.com", "b.example.org")))
	pair("a permitted domain, a wildcard", permit, some(dns("*.example.com")))
	pair("a permitted domain, an address", permit, some(ips("10.0.0.1")))
	pair("a permitted domain, a name that is none", permit, some(dns("a..example.com")))
	pair("an excluded domain, its name", exclude, some(dns("a.example.com")))
	pair("an excluded domain, another name", exclude, some(dns("b.example.com")))
	pair("an excluded domain, a wildcard", exclude, some(dns("*.example.com")))
	pair("an excluded domain, a wildcard above", exclude, some(dns("*.com")))
	below := constrained(func(c *x509.Certificate) { c.PermittedDNSDomains = []string{".example.com"} })
	pair("a permitted domain with a dot, its name", below, some(dns("example.com")))
	pair("a permitted domain with a dot, a name below it", below, some(dns("a.example.com")))
	addresses := constrained(func(c *x509.Certificate) {
		c.PermittedIPRanges, c.ExcludedIPRanges = []*net.IPNet{network("10.0.0.0/8")}, []*net.IPNet{network("10.1.0.0/16")}
	})
	pair("a permitted network, an address of it", addresses, some(ips("10.0.0.1")))
	pair("a permitted network, another address", addresses, some(ips("11.0.0.1")))
	pair("a permitted network, an address of IPv6", addresses, some(ips("2001:db8::1")))
	pair("an excluded network, an address of it", addresses, some(ips("10.1.0.1")))
	six := constrained(func(c *x509.Certificate) { c.ExcludedIPRanges = []*net.IPNet{network("2001:db8::/32")} })
	pair("an excluded network of IPv6, an address of it", six, some(ips("2001:db8::1")))
	pair("an excluded network of IPv6, an address of IPv4", six, some(ips("10.0.0.1")))
	mails := constrained(func(c *x509.Certificate) { c.PermittedEmailAddresses = []string{"example.com", "bob@example.org"} })
	pair("permitted addresses of mail, one of the domain", mails, some(emails("a@Example.com")))
	pair("permitted addresses of mail, one below the domain", mails, some(emails("a@b.example.com")))
	pair("permitted addresses of mail, the mailbox", mails, some(emails("bob@EXAMPLE.org")))
	pair("permitted addresses of mail, another mailbox", mails, some(emails("Bob@example.org")))
	pair("permitted addresses of mail, one that is none", mails, some(emails("nobody")))
	resources := constrained(func(c *x509.Certificate) { c.PermittedURIDomains = []string{"example.com"} })
	pair("a permitted domain of URIs, a URI", resources, some(uris("spiffe://a.example.com/x")))
	pair("a permitted domain of URIs, one with a port", resources, some(uris("https://example.com:8443/x")))
	pair("a permitted domain of URIs, another URI", resources, some(uris("spiffe://example.org/x")))
	pair("a permitted domain of URIs, an address", resources, some(uris("https://10.0.0.1/x")))
	pair("a permitted domain of URIs, no host", resources, some(uris("urn:x:y")))
	three("an intermediate certificate permits a domain, another name", nil, permit, some(dns("example.org")))
	three("an intermediate certificate permits a domain, its name", nil, permit, some(dns("example.com")))
	three("a root and an intermediate certificate permit different domains", permit,
		constrained(func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.org"} }), some(dns("example.com")))
	three("the name of an intermediate certificate is not permitted", permit, some(dns("example.org")), nil)
	pair("constraints of the leaf itself", nil, append(permit, dns("example.org")))
	// permittedSubtrees: directoryName, an empty name.
	directory := []byte{0x30, 8, 0xa0, 6, 0x30, 4, 0xa4, 2, 0x30, 0}
	pair("a critical constraint of directory names", some(extension(nameConstraints, true, directory)), nil)
	pair("a constraint of directory names", some(extension(nameConstraints, false, directory)), nil)
	all := []byte{0x30, 6, 0xa1, 4, 0x30, 2, 0x82, 0}
	pair("all domains are excluded, no name", some(extension(nameConstraints, true, all)), nil)
	pair("all domains are excluded, a name", some(extension(nameConstraints, true, all)), some(dns("example.com")))
	pair("a SPIFFE identity", nil, some(uris("spiffe://example.com/a")))
}

func times(b *builder, pair pairs, three threes) {
	pair("an expired leaf", nil, some(validity(2000, 2010)))
	pair("a leaf that is not yet valid", nil, some(validity(2090, 2100)))
	pair("an expired root", some(validity(2000, 2010)), nil)
	pair("a root that is not yet valid", some(validity(2090, 2100)), nil)
	three("an expired intermediate certificate", nil, some(validity(2000, 2010)), nil)
	pair("a leaf that never expires", nil, some(with(func(certificate *x509.Certificate) {
		certificate.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	})))
	b.name = "an expired root and a renewed one"
	old := b.root(validity(2000, 2010))
	renewed := b.root(keyOf(old))
	b.add(trusting(old, renewed), leaf(old))
	pair("a leaf that ends before it begins", nil, some(raw(func(tbs *tbsCertificate) {
		tbs.Validity = asn1.RawValue{FullBytes: check(asn1.Marshal([]time.Time{date(2040), date(2030)}))}
	})))
}

func algorithms(b *builder, pair pairs) {
	for _, kind := range []string{"768", "1024", "2048", "3072", "4096", "P224", "P384", "P521", "Ed25519"} {
		pair("a root with the key "+kind, some(keyed(kind)), nil)
	}
	for _, kind := range []string{"2048", "4096", "P384", "P521", "Ed25519"} {
		pair("a leaf with the key "+kind, nil, some(keyed(kind)))
	}
	for _, kind := range []string{"2048", "P384", "Ed25519"} {
		b.name = "a leaf with the key " + kind + " in TLS 1.2"
		root := b.root()
		b.add(trusting(root), leaf(root, keyed(kind))).version = tls.VersionTLS12
	}
	for _, of := range []x509.SignatureAlgorithm{
		x509.SHA384WithRSA, x509.SHA512WithRSA, x509.SHA1WithRSA, x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
	} {
		pair("a leaf signed with "+of.String(), some(keyed("2048")), some(algorithm(of)))
	}
	pair("a leaf signed with SHA512WithRSA and the key 1024", some(keyed("1024")), some(algorithm(x509.SHA512WithRSA)))
	pair("a leaf signed with SHA384WithRSA and the key 1024", some(keyed("1024")), some(algorithm(x509.SHA384WithRSA)))
	pair("a leaf signed with SHA256WithRSAPSS and the key 1024", some(keyed("1024")), some(algorithm(x509.SHA256WithRSAPSS)))
	pair("a leaf signed with ECDSAWithSHA1", nil, some(algorithm(x509.ECDSAWithSHA1)))
	pair("a leaf signed with ECDSAWithSHA512 and the key P256", nil, some(algorithm(x509.ECDSAWithSHA512)))
	pair("a leaf signed with ECDSAWithSHA256 and the key P384", some(keyed("P384")), some(algorithm(x509.ECDSAWithSHA256)))
	pair("a leaf signed with ECDSAWithSHA512 and the key P384", some(keyed("P384")), some(algorithm(x509.ECDSAWithSHA512)))
	pair("a leaf signed with ECDSAWithSHA256 and the key P521", some(keyed("P521")), some(algorithm(x509.ECDSAWithSHA256)))
	pair("a root signed with SHA1WithRSA", some(keyed("2048"), algorithm(x509.SHA1WithRSA)), nil)
}

func structure(b *builder, pair pairs, three threes) {
	three("an intermediate certificate", nil, nil, nil)
	b.name = "an intermediate certificate that is not sent"
	root := b.root()
	middle := b.middle(root, "middle")
	b.add(trusting(root), leaf(middle))
	b.name = "an intermediate certificate in the bundle"
	root = b.root()
	middle = b.middle(root, "middle")
	b.add(trusting(root, middle), leaf(middle))
	b.name = "intermediate certificates in the wrong order, with the root"
	root = b.root()
	upper := b.middle(root, "upper")
	lower := b.middle(upper, "lower")
	end := leaf(lower)
	b.add(trusting(root), end, root, upper, lower, upper)
	b.name = "certificates of others are sent along"
	root = b.root()
	other := issue(nil, b.ca("other"), authority)
	b.add(trusting(root), leaf(root), other, leaf(other))
	b.name = "an unknown authority that is sent along"
	root = b.root()
	other = issue(nil, b.ca("other"), authority)
	b.add(trusting(root), leaf(other), other)
	b.name = "an unknown authority with the name of a trusted one"
	root, other = b.root(), b.root()
	b.add(trusting(root), leaf(other), other)
	b.name = "two authorities of one name, the first has signed"
	root, other = b.root(), b.root()
	b.add(trusting(root, other), leaf(root))
	b.name = "two authorities of one name, the second has signed"
	root, other = b.root(), b.root()
	b.add(trusting(root, other), leaf(other))
	b.name = "two authorities of one name, without identifiers of keys"
	root, other = b.root(withoutExtension(subjectKeyID)), b.root(withoutExtension(subjectKeyID))
	b.add(trusting(root, other), leaf(other, withoutExtension(authorityKeyID)))
	b.name = "the identifier of the authority's key is wrong"
	root = b.root()
	b.add(trusting(root), leaf(root, raw(func(tbs *tbsCertificate) {
		for index, each := range tbs.Extensions {
			if each.Id.Equal(authorityKeyID) {
				tbs.Extensions[index].Value = []byte{0x30, 6, 0x80, 4, 1, 2, 3, 4}
			}
		}
	})))
	b.name = "two intermediate certificates of one name, the second has signed"
	root = b.root()
	one, two := b.middle(root, "middle"), b.middle(root, "middle")
	b.add(trusting(root), leaf(two), one, two)
	b.name = "one intermediate key, signed by an unknown and by a trusted authority"
	root, other = b.root(), issue(nil, b.ca("other"), authority)
	one = b.middle(other, "middle")
	two = b.middle(root, "middle", keyOf(one))
	b.add(trusting(root), leaf(one), one, two)
	b.name = "two authorities that have signed each other, one of them trusted"
	root, other = b.root(), issue(nil, b.ca("other"), authority)
	one = issue(other, b.ca("root"), authority, keyOf(root))
	two = issue(root, b.ca("other"), authority, keyOf(other))
	b.add(trusting(root), leaf(other), one, two)
	b.name = "two authorities that have signed each other, none of them trusted"
	root, other = b.root(), issue(nil, b.ca("other"), authority)
	one = issue(other, b.ca("root"), authority, keyOf(root))
	two = issue(root, b.ca("other"), authority, keyOf(other))
	b.add(trusting(issue(nil, b.ca("third"), authority)), leaf(other), one, two)
	b.name = "the key of an intermediate certificate for servers has another one for clients"
	root = b.root()
	one = b.middle(root, "middle", extended(x509.ExtKeyUsageServerAuth))
	two = b.middle(root, "middle", extended(x509.ExtKeyUsageClientAuth), keyOf(one))
	b.add(trusting(root), leaf(one), one, two)
	b.name = "a changed signature"
	root = b.root()
	b.add(trusting(root), leaf(root, bytesOf(func(der []byte) []byte {
		der[len(der)-1] ^= 1
		return der
	})))
	b.name = "a changed subject"
	root = b.root()
	end = leaf(root)
	changed := resign(end.der, newKey("P256"), func(tbs *tbsCertificate) {})
	b.add(trusting(root), &issuer{der: changed, key: end.key})
	b.name = "a leaf below a leaf"
	root = b.root()
	end = issue(root, b.ca("leaf"), extended(x509.ExtKeyUsageClientAuth))
	b.add(trusting(root), leaf(end), end)
	b.name = "a leaf signed by itself"
	root = b.root()
	b.add(trusting(root), leaf(nil))
	b.name = "ten intermediate certificates"
	root = b.root()
	chain, parent := []*issuer{}, root
	for number := range 10 {
		parent = b.middle(parent, fmt.Sprintf("middle %d", number))
		chain = append([]*issuer{parent}, chain...)
	}
	b.add(trusting(root), append([]*issuer{leaf(parent)}, chain...)...)
	pair("an unknown critical extension", nil, some(extension(unknown, true, []byte{5, 0})))
	pair("an unknown extension", nil, some(extension(unknown, false, []byte{5, 0})))
	pair("an unknown critical extension of the root", some(extension(unknown, true, []byte{5, 0})), nil)
	three("an unknown critical extension of an intermediate certificate", nil, some(extension(unknown, true, []byte{5, 0})), nil)
}

func encodings(b *builder, pair pairs, three threes) {
	again := func(id asn1.ObjectIdentifier) option {
		return raw(func(tbs *tbsCertificate) {
			for _, each := range tbs.Extensions {
				if each.Id.Equal(id) {
					tbs.Extensions = append(tbs.Extensions, each)
					return
				}
			}
		})
	}
	pair("an extension twice", nil, some(again(extendedUsage)))
	three("an extension of an intermediate certificate twice", nil, some(again(basicConstraints)), nil)
	pair("a negative serial number", nil, some(raw(func(tbs *tbsCertificate) { tbs.SerialNumber = big.NewInt(-5) })))
	pair("a serial number of 40 bytes", nil, some(raw(func(tbs *tbsCertificate) {
		tbs.SerialNumber = new(big.Int).Lsh(big.NewInt(1), 319)
	})))
	pair("bytes behind the certificate", nil, some(bytesOf(func(der []byte) []byte { return append(der, 0) })))
	pair("another algorithm inside the signed part", nil, some(raw(func(tbs *tbsCertificate) {
		tbs.SignatureAlgorithm.Algorithm = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}
	})))
	pair("a critical identifier of the key", nil, some(extension(subjectKeyID, true, []byte{4, 1, 1})))
	pair("a critical identifier of the authority's key", nil, some(raw(func(tbs *tbsCertificate) {
		for index, each := range tbs.Extensions {
			tbs.Extensions[index].Critical = each.Critical || each.Id.Equal(authorityKeyID)
		}
	})))
	pair("a critical alternative name of an unknown kind", nil, some(extension(subjectNames, true, []byte{0x30, 4, 0x88, 2, 0x2a, 3})))
	pair("an alternative name of an unknown kind", nil, some(extension(subjectNames, false, []byte{0x30, 4, 0x88, 2, 0x2a, 3})))
	pair("an address of five bytes", nil, some(extension(subjectNames, false, []byte{0x30, 7, 0x87, 5, 1, 2, 3, 4, 5})))
	pair("a domain that is not ASCII", nil, some(extension(subjectNames, false, []byte{0x30, 4, 0x82, 2, 0xc3, 0xa4})))
	pair("a URI that is none", nil, some(extension(subjectNames, false, []byte{0x30, 5, 0x86, 3, '%', 'z', 'z'})))
	pair("basic constraints with a boolean of 1", nil, some(extension(basicConstraints, true, []byte{0x30, 3, 1, 1, 1})))
	pair("basic constraints with a length that is not the shortest", nil, some(extension(basicConstraints, true, []byte{0x30, 0x81, 0})))
	pair("an extended usage that is none", nil, some(extended(), extension(extendedUsage, false, []byte{0x30, 2, 5, 0})))
	three("garbage in the place of an intermediate certificate", nil, some(bytesOf(func([]byte) []byte { return []byte{1, 2, 3} })), nil)
	pair("a time with a zone", nil, some(raw(func(tbs *tbsCertificate) {
		text := "000101000000+0100"
		from := append([]byte{0x17, byte(len(text))}, text...)
		to := check(asn1.Marshal(date(2040)))
		tbs.Validity = asn1.RawValue{FullBytes: append([]byte{0x30, byte(len(from) + len(to))}, append(from, to...)...)}
	})))
	pair("a day that does not exist", nil, some(raw(func(tbs *tbsCertificate) {
		text := "010229000000Z"
		from := append([]byte{0x17, byte(len(text))}, text...)
		to := check(asn1.Marshal(date(2040)))
		tbs.Validity = asn1.RawValue{FullBytes: append([]byte{0x30, byte(len(from) + len(to))}, append(from, to...)...)}
	})))
}

func names(pair pairs) {
	const utf8, printable, t61, bmp, ia5, numeric, octets = 12, 19, 20, 30, 22, 18, 4
	one := func(name string, attributes ...attribute) { pair(name, nil, some(subject(attributes...))) }
	one("no common name", attribute{organization, utf8, []byte("dev")})
	one("an empty common name", attribute{commonName, utf8, nil})
	one("two common names", attribute{commonName, utf8, []byte("first")}, attribute{commonName, utf8, []byte("last")})
	one("two organizations", attribute{organization, utf8, []byte("a")}, attribute{commonName, utf8, []byte("alice")},
		attribute{organization, utf8, []byte("b")})
	one("an empty organization", attribute{commonName, utf8, []byte("alice")}, attribute{organization, utf8, nil})
	one("a name in T61", attribute{commonName, t61, []byte("al\xefce")})
	one("a name in BMP", attribute{commonName, bmp, []byte("\x00a\x01\x02")})
	one("a name in BMP with half a character", attribute{commonName, bmp, []byte("\xd8\x00")})
	one("a name in IA5", attribute{commonName, ia5, []byte("a@b")})
	one("a numeric name", attribute{commonName, numeric, []byte("12")})
	one("a printable name", attribute{commonName, printable, []byte("a*&b")})
	one("a printable name with an underscore", attribute{commonName, printable, []byte("a_b")})
	one("a name that is not UTF-8", attribute{commonName, utf8, []byte("\xff")})
	one("a name of bytes", attribute{commonName, octets, []byte("alice")})
	one("a name with spaces and a line break", attribute{commonName, utf8, []byte(" a\nb ")})
	one("a UID", attribute{commonName, utf8, []byte("alice")}, attribute{uid, utf8, []byte("u1")})
	one("two UIDs", attribute{commonName, utf8, []byte("alice")}, attribute{uid, utf8, []byte("u1")}, attribute{uid, utf8, []byte("u2")})
	one("an empty UID", attribute{commonName, utf8, []byte("alice")}, attribute{uid, utf8, nil})
	one("the group system:masters", attribute{commonName, utf8, []byte("alice")}, attribute{organization, utf8, []byte("system:masters")})
	one("the anonymous user", attribute{commonName, utf8, []byte("system:anonymous")})
}
