package secretscan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The test values are generated, so that no scanner reports this file as a leak.
var random = rand.New(rand.NewPCG(1, 2))

func of(alphabet string, length int) string {
	var text strings.Builder
	for range length {
		text.WriteByte(alphabet[random.IntN(len(alphabet))])
	}
	return text.String()
}

const (
	digits  = "0123456789"
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = lower + upper
	alnum   = letters + digits
	hex     = digits + "abcdef"
	url     = alnum + "_-"
)

type sample struct{ name, text, rule string }

func secrets() []sample {
	token := "t" + "oken"
	return []sample{
		{"/home/user/.ssh/id_ed25519", "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3Bl", "private_key"},
		{"/srv/tls/key.pem", "# key\n-----BEGIN RSA " + "PRIVATE KEY-----\n", "private_key"},
		{"/srv/tls/key8.pem", "-----BEGIN " + "PRIVATE KEY-----\n", "private_key"},
		{"/home/user/.aws/credentials", "[default]\naws_access_key_id = AKIA" + of(upper[:18]+"234567", 16), "aws_access_key"},
		{"/home/user/.aws/credentials", "aws_secret_access_key = " + of(alnum+"/+", 40), "aws_secret_key"},
		{"/home/user/.env", "AWS_SECRET_ACCESS_KEY=" + of(alnum+"/+", 40), "aws_secret_key"},
		{"/home/user/.env", "GITHUB=ghp_" + of(alnum, 36), "github_token"},
		{"/home/user/.git-credentials", "https://me:gho_" + of(alnum, 36) + "@github.com", "github_token"},
		{"/home/user/x.sh", "curl -H 'Authorization: Bearer github_pat_" + of(alnum+"_", 82) + "'", "github_token"},
		{"/home/user/ci.yml", "  key: glpat-" + of(url, 20), "gitlab_token"},
		{"/home/user/bot.py", "slack = 'xoxb-" + of(digits, 12) + "-" + of(digits, 12) + "-" + of(alnum, 24) + "'", "slack_token"},
		{"/home/user/hook", "https://hooks.slack.com/services/T" + of(upper+digits, 9) + "/B" + of(upper+digits, 9) + "/" + of(alnum, 24), "slack_webhook"},
		{"/srv/app/config.rb", "Stripe.api_key = \"sk_live_" + of(alnum, 24) + "\"", "stripe_key"},
		{"/srv/app/maps.js", "const maps = 'AIza" + of(url, 35) + "'", "google_api_key"},
		{"/srv/app/oauth.json", `{"client_secret":"GOCSPX-` + of(url, 28) + `"}`, "google_oauth_secret"},
		{"/home/user/.env", "OPENAI_API_KEY=sk-" + of(alnum, 20) + "T3BlbkFJ" + of(alnum, 20), "openai_key"},
		{"/home/user/.env", "OPENAI_API_KEY=sk-proj-" + of(url, 74) + "T3BlbkFJ" + of(url, 74), "openai_key"},
		{"/home/user/.env", "ANTHROPIC_API_KEY=sk-ant-api03-" + of(url, 93) + "AA", "anthropic_key"},
		{"/home/user/.cache2/hf", "hf_" + of(letters, 34), "huggingface_token"},
		{"/home/user/.npmrc", "//registry.npmjs.org/:_authToken=npm_" + of(alnum, 36), "npm_token"},
		{"/home/user/.npmrc", "//npm.internal/:_authToken=" + of(hex, 36), "registry_auth"},
		{"/home/user/.pypirc", "password = pypi-AgEIcHlwaS5vcmc" + of(url, 120), "pypi_token"},
		{"/srv/app/mail.py", "KEY = 'SG." + of(url, 22) + "." + of(url, 43) + "'", "sendgrid_key"},
		{"/srv/app/sms.py", "twilio_key = 'SK" + of(hex, 32) + "'", "twilio_key"},
		{"/home/user/.env", "DO=dop_v1_" + of(hex, 64), "digitalocean_token"},
		{"/home/user/.databrickscfg", "x = dapi" + of(hex, 32), "databricks_token"},
		{"/home/user/.vault-" + token, "hvs." + of(url, 95), "vault_token"},
		{"/srv/app/shop.env", "SHOP=shpat_" + of(hex, 32), "shopify_token"},
		{"/srv/app/bot.env", "TELEGRAM=" + of("123456789", 9) + ":AA" + of(url, 33), "telegram_token"},
		{"/home/user/.config/cli", "key: sfk_" + of(alnum, 12) + "_" + of(url, 43), "service_key"},
		{"/home/user/age.txt", "AGE-SECRET-KEY-1" + of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58), "age_key"},
		{"/home/user/.netrc", "machine api.host login me password " + of(alnum, 14), "netrc_password"},
		{"/srv/app/.env", "DATABASE_URL=postgres://app:" + of(alnum, 20) + "@db.internal:5432/app", "url_password"},
		{"/srv/app/.env", "REDIS_URL=rediss://default:" + of(alnum, 32) + "@cache:6379", "url_password"},
		{"/home/user/.docker/config.json", `{"auths":{"registry":{"auth": "` + of(alnum, 40) + `"}}}`, "registry_auth"},
		{"/srv/app/settings.py", "SECRET_KEY = '" + of(alnum+"!@#%^&*", 50) + "'", "assigned_secret"},
		{"/srv/app/.env", "SESSION_" + "TOKEN=" + of(hex, 64), "assigned_secret"},
		{"/srv/app/config.yml", "  api_key: " + of(alnum, 32), "assigned_secret"},
		{"/srv/app/config.toml", "db_password = \"" + of(alnum, 24) + "\"", "assigned_secret"},
		{"/srv/app/app.ts", "const options = { " + token + ": `" + of(alnum, 40) + "` }", "assigned_secret"},
	}
}

func harmless() []sample {
	return []sample{
		{name: "/srv/app/settings.py", text: "SECRET_KEY = os.environ['SECRET_KEY']"},
		{name: "/srv/app/app.ts", text: "const token = process.env.ACCESS_TOKEN_OF_SERVICE"},
		{name: "/srv/app/app.ts", text: "if (password === hashedPasswordOfUser) return"},
		{name: "/srv/app/app.ts", text: "export const tokenExpiresInSeconds = computeExpiry(configuration)"},
		{name: "/srv/app/.env.example", text: "API_KEY=your-api-key-goes-here-0123"},
		{name: "/srv/app/.env.example", text: "DATABASE_URL=postgres://user:password@localhost/db"},
		{name: "/srv/app/.env.example", text: "DATABASE_URL=postgres://app:${DB_PASSWORD}@db/app"},
		{name: "/srv/app/docker-compose.yml", text: "POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:-changeme12345678}"},
		{name: "/srv/app/README.md", text: "Use AKIAIOSFODNN7EXAMPLE as the access key"},
		{name: "/srv/app/README.md", text: "token: <the token that you have created>"},
		{name: "/srv/app/README.md", text: "export TOKEN=xxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
		{name: "/srv/app/package-lock.json", text: `"integrity": "sha512-` + of(alnum, 86) + `=="`},
		{name: "/srv/app/yarn.lock", text: "token@^1.0.0: " + of(alnum, 40)},
		{name: "/srv/app/go.sum", text: "github.com/x/token v1.0.0 h1:" + of(alnum, 43) + "="},
		{name: "/srv/app/commit", text: "commit " + of(hex, 40)},
		{name: "/srv/app/ids.json", text: `{"id": "0198c0de-1111-7000-8000-000000000001"}`},
		{name: "/srv/app/page.html", text: `<link integrity="sha384-` + of(alnum, 64) + `">`},
		{name: "/srv/app/cert.pem", text: "-----BEGIN CERTIFICATE-----\n" + of(alnum, 64)},
		{name: "/srv/app/key.pub", text: "-----BEGIN PUBLIC KEY-----\n" + of(alnum, 64)},
		{name: "/home/user/.ssh/id.pub", text: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + of(alnum, 40) + " me@host"},
		{name: "/home/user/.ssh/known_hosts", text: "host ssh-rsa AAAAB3NzaC1yc2E" + of(alnum, 300)},
		{name: "/srv/app/lexer.py", text: "token_specification = [('NUMBER', r'[0-9]+')]"},
		{name: "/srv/app/lexer.c", text: "static token_kind next_token_of_stream(struct token_stream *stream);"},
		{name: "/srv/app/csrf.js", text: "headers['X-CSRF-Token'] = document.querySelector('meta[name=csrf]').content"},
		{name: "/srv/app/i18n.json", text: `"password_reset_instructions": "Check your mail for further instructions"`},
		{name: "/srv/app/schema.sql", text: "password_hash text not null, -- argon2id, 64 MiB"},
		{name: "/srv/app/urls.txt", text: "https://example.com:8080/path@v2/file"},
		{name: "/srv/app/mail.txt", text: "mailto:someone@example.com"},
		{name: "/srv/app/git.txt", text: "git+ssh://git@github.com/owner/repository.git"},
		{name: "/usr/share/doc/x", text: "password = Zr8kQ2mN5vX7pL3wT9yB"},
		{name: "/srv/node_modules/x/test.js", text: "const token = 'a8f5f167f44f4964e6c998dee827110c'"},
		{name: "/srv/app/image.ts", text: "const logo = 'data:image/png;base64," + of(alnum, 400) + "'"},
		{name: "/srv/app/colors.css", text: "--token-color-primary-hover: #a1b2c3;"},
		{name: "/srv/app/k8s.yml", text: "secretName: application-credentials-production"},
		{name: "/srv/app/k8s.yml", text: "secretKeyRef: {name: app-secrets, key: database-password}"},
		{name: "/srv/app/tf.tf", text: "password = var.database_administrator_password"},
		{name: "/srv/app/i.java", text: "private static final String TOKEN_HEADER_NAME = \"X-Authorization-Token\";"},
		{name: "/srv/app/version.txt", text: "sk-learn-1.2.3 sk-image-0.22"},
		{name: "/srv/app/uuid.env", text: "REQUEST_ID=" + of(hex, 8)},
		{name: "/srv/app/bin", text: "\x00\x01password=" + of(alnum, 40)},
	}
}

func scanned(name string, text []byte) []Finding {
	found, _ := Scan(name, text, func() bool { return false })
	return found
}

func TestOfFortySecretsAtMostTwoAreMissedAndOfFortyHarmlessLinesNoneIsTakenForOne(t *testing.T) {
	found, alarms := 0, 0
	for _, one := range secrets() {
		rules := fmt.Sprint(scanned(one.name, []byte(one.text)))
		if strings.Contains(rules, one.rule+" ") {
			found++
		} else {
			t.Logf("%s: %q is not found as %s but as %s", one.name, one.text, one.rule, rules)
		}
	}
	for _, one := range harmless() {
		if rules := scanned(one.name, []byte(one.text)); len(rules) > 0 {
			alarms++
			t.Errorf("%s: %q is taken for %v", one.name, one.text, rules)
		}
	}
	if found < len(secrets())-2 {
		t.Error("too many are missed")
	}
	t.Logf("recall %d of %d, false alarms %d of %d", found, len(secrets()), alarms, len(harmless()))
}

func TestAFindingSaysTheFirstLineOfEachRule(t *testing.T) {
	text := "one\ntwo\nA=ghp_" + of(alnum, 36) + "\nB=ghp_" + of(alnum, 36) + "\n"
	if found := scanned("/home/user/x", []byte(text)); len(found) != 1 || found[0] != (Finding{Rule: "github_token", Line: 3}) {
		t.Fatalf("%+v", found)
	}
	if found := scanned("/home/user/empty", nil); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
}

func TestASecretInALongLineIsFoundWhereverItLies(t *testing.T) {
	for _, one := range secrets() {
		if strings.Contains(one.text, "\n") {
			continue
		}
		for before := 3 * window; before < 4*window; before += 37 {
			text := strings.Repeat(" ", before) + one.text + strings.Repeat(" ", 2*window)
			if short, long := fmt.Sprint(scanned(one.name, []byte(one.text))), fmt.Sprint(scanned(one.name, []byte(text))); short != long {
				t.Fatalf("%s after %d characters: %s, alone %s", one.rule, before, long, short)
			}
		}
	}
}

func TestEachWindowIsLookedAtOnceByARule(t *testing.T) {
	for _, end := range []string{" = ", " = \n", " " + strings.Repeat("x", window-20) + "\n"} {
		var piece []byte
		for _, rule := range rules {
			for _, word := range rule.words {
				piece = append(append(piece, word...), end...)
			}
		}
		text := bytes.Repeat(piece, (64<<10)/len(piece)+1)
		s := newScan("/home/user/x", func() bool { return false })
		s.read(text)
		if most := 2 * len(rules) * len(text); s.looked > most || len(s.found) > 0 {
			t.Errorf("%q: %d bytes are given to expressions, %d at most; %v", end, s.looked, most, s.found)
		}
	}
}

func TestAScanEndsInTheMiddleOfALine(t *testing.T) {
	asked := 0
	text := "one\n" + strings.Repeat("word ", BytesMax/5)
	_, stopped := Scan("/home/user/x", []byte(text), func() bool { asked++; return asked == 3 })
	if stopped != 2 || asked != 3 {
		t.Errorf("stopped at line %d, asked %d times", stopped, asked)
	}
}

func FuzzAnyTextIsScannedWithoutAPanic(f *testing.F) {
	for _, one := range secrets() {
		f.Add(one.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, one := range scanned("/home/user/file", []byte(text)) {
			if one.Line < 1 || one.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%+v", one)
			}
		}
	})
}
