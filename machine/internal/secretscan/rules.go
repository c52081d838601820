package secretscan

import "regexp"

// rule finds one kind of secret. A line must contain one of the words; entropyMin applies to the first group.
type rule struct {
	name       string
	words      []string // in lower case
	expression *regexp.Regexp
	entropyMin float64 // minimum in bits per character; 0: the expression is enough
	generic    bool    // not specific to a provider, so it is skipped in files that contain many such words
}

var rules = []rule{
	{name: "private_key", words: []string{"private key-----"}, expression: regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----`)},
	{name: "aws_access_key", words: []string{"akia", "asia", "abia", "acca"}, expression: regexp.MustCompile(`\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b`), entropyMin: 2.5},
	{name: "aws_secret_key", words: []string{"aws_secret", "aws.secret", "awssecret", "secret_access_key", "secretaccesskey"},
		expression: regexp.MustCompile(`(?i)(?:aws.?secret|secret.?access.?key)[^\n]{0,30}?[=:]\s*["']?([A-Za-z0-9/+]{40})(?:["'\s]|$)`), entropyMin: 3.5},
	{name: "github_token", words: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, expression: regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36,255})\b`), entropyMin: 3},
	{name: "github_token", words: []string{"github_pat_"}, expression: regexp.MustCompile(`\b(github_pat_[A-Za-z0-9_]{50,255})\b`), entropyMin: 3},
	{name: "gitlab_token", words: []string{"glpat-", "gldt-", "glrt-", "glptt-"}, expression: regexp.MustCompile(`\b(gl(?:pat|dt|rt|ptt)-[A-Za-z0-9_-]{20,64})\b`), entropyMin: 3},
	{name: "slack_token", words: []string{"xox"}, expression: regexp.MustCompile(`\b(xox[abeoprs]-[A-Za-z0-9-]{20,250})\b`), entropyMin: 2.5},
	{name: "slack_webhook", words: []string{"hooks.slack.com"}, expression: regexp.MustCompile(`hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/+]{40,60})`), entropyMin: 3},
	{name: "stripe_key", words: []string{"_live_"}, expression: regexp.MustCompile(`\b((?:sk|rk)_live_[A-Za-z0-9]{16,247})\b`), entropyMin: 3},
	{name: "google_api_key", words: []string{"aiza"}, expression: regexp.MustCompile(`\b(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)`), entropyMin: 3},
	{name: "google_oauth_secret", words: []string{"gocspx-"}, expression: regexp.MustCompile(`\b(GOCSPX-[A-Za-z0-9_-]{28})(?:[^A-Za-z0-9_-]|$)`), entropyMin: 3},
	{name: "openai_key", words: []string{"sk-"}, expression: regexp.MustCompile(`\b(sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,200}T3BlbkFJ[A-Za-z0-9_-]{20,200})`), entropyMin: 3},
	{name: "anthropic_key", words: []string{"sk-ant-"}, expression: regexp.MustCompile(`\b(sk-ant-[a-z0-9]{5}-[A-Za-z0-9_-]{80,120})`), entropyMin: 3},
	{name: "huggingface_token", words: []string{"hf_"}, expression: regexp.MustCompile(`\b(hf_[A-Za-z]{34})\b`), entropyMin: 3},
	{name: "npm_token", words: []string{"npm_"}, expression: regexp.MustCompile(`\b(npm_[A-Za-z0-9]{36})\b`), entropyMin: 3},
	{name: "pypi_token", words: []string{"pypi-ageichlwas"}, expression: regexp.MustCompile(`\b(pypi-AgEIcHlwaS[A-Za-z0-9_-]{50,1000})`), entropyMin: 3},
	{name: "sendgrid_key", words: []string{"sg."}, expression: regexp.MustCompile(`\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)`), entropyMin: 3},
	{name: "twilio_key", words: []string{"sk"}, expression: regexp.MustCompile(`(?i)twilio[^\n]{0,40}\b(SK[0-9a-f]{32})\b`), entropyMin: 2.5},
	{name: "digitalocean_token", words: []string{"do"}, expression: regexp.MustCompile(`\b(do[opr]_v1_[a-f0-9]{64})\b`), entropyMin: 3},
	{name: "databricks_token", words: []string{"dapi"}, expression: regexp.MustCompile(`\b(dapi[a-f0-9]{32})\b`), entropyMin: 2.8},
	{name: "vault_token", words: []string{"hvs.", "hvb."}, expression: regexp.MustCompile(`\b(hv[sb]\.[A-Za-z0-9_-]{90,300})`), entropyMin: 3},
	{name: "shopify_token", words: []string{"shpat_", "shpca_", "shppa_", "shpss_"}, expression: regexp.MustCompile(`\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b`), entropyMin: 2.5},
	{name: "telegram_token", words: []string{":aa"}, expression: regexp.MustCompile(`\b([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)`), entropyMin: 3},
	{name: "service_key", words: []string{"sfk_", "sfu_", "sfp_", "sfcb_"}, expression: regexp.MustCompile(`\b(sf(?:k_[A-Za-z0-9]{6,40}_|u_|p_|cb_)[A-Za-z0-9_-]{30,120})`), entropyMin: 3},
	{name: "age_key", words: []string{"age-secret-key-1"}, expression: regexp.MustCompile(`AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}`)},
	{name: "netrc_password", words: []string{"password"}, expression: regexp.MustCompile(`(?:^|\s)machine\s+\S+\s+login\s+\S+\s+password\s+(\S{4,})`), entropyMin: 1.5},
	{name: "url_password", words: []string{"://"}, expression: regexp.MustCompile(`\b[a-z][a-z0-9+.-]{1,15}://[^\s/:@"'<>]{1,100}:([^\s/:@"'<>{}$%]{8,200})@[A-Za-z0-9.-]`), entropyMin: 2.8, generic: true},
	{name: "registry_auth", words: []string{`"auth"`, "_authtoken", "_auth"}, expression: regexp.MustCompile(`(?:"auth"\s*:\s*"|_auth(?:Token)?\s*=\s*"?)([A-Za-z0-9+/=_-]{16,})`), entropyMin: 3.2},
	{name: "assigned_secret", words: []string{"secret", "token", "passwd", "password", "api_key", "apikey", "api-key", "access_key", "private_key", "credential"},
		expression: regexp.MustCompile(`(?i)(?:secret|token|passwd|password|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)[a-z0-9_.-]{0,20}["']?\s*(?::=|=>|=|:)\s*["'` + "`" + `]?([A-Za-z0-9+/_=.~!@#%^&*-]{16,200})(?:["'` + "`" + `\s,;)}\]]|$)`),
		entropyMin: 3.6, generic: true},
}
