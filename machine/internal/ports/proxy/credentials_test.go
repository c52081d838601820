package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func public(o *Options) { o.Scheme = "https" }

func trusting(o *Options) { o.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func TestNothingOfThePlatformReachesAnApp(t *testing.T) {
	app := answering(t, ok)
	w, secure := newWorld(t, app.Addr()), newWorld(t, app.Addr(), public)
	plain := "GET /x HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	for name, bytes := range map[string]string{
		"bearer":               plain + "Authorization: Bearer " + token + "\r\n",
		"bearer in lower case": plain + "authorization: bearer   " + token + "\r\n",
		"both headers":         plain + "Authorization: Bearer " + token + "\r\nX-Service-Token: " + token + "\r\n",
		"two bearers":          plain + "Authorization: Bearer " + token + "\r\nAuthorization: Bearer " + token + "\r\n",
		"and another's":        plain + "Authorization: Bearer " + token + "\r\nCookie: berth-port=" + cookie + "\r\n",
		"cookie":               plain + "Cookie: __Host-berth-port=" + cookie + "\r\n",
		"cookie among cookies": plain + "Cookie: a=1; __Host-berth-port=" + cookie + "; b=2\r\n",
		"cookie without TLS":   plain + "Cookie: berth-port=" + cookie + "\r\n",
		"in the query":         strings.Replace(plain, "/x", "/x?a=1&t="+token+"&b=2", 1) + "X-Service-Token: " + token + "\r\n",
		"in a field":           plain + "X-Service-Token: " + token + "\r\nX-Copy: a" + token + "\r\n",
		"callback":             strings.Replace(plain, "/x", "/__service/callback/"+callback+"/x", 1),
		"callback and referer": strings.Replace(plain, "/x", "/__service/callback/"+callback+"/x", 1) + "Referer: https://" + host + "/__service/callback/" + callback + "/y?z\r\n",
		"referer of a link":    plain + "X-Service-Token: " + token + "\r\nReferer: https://" + host + "/__service/link?t=" + link + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			at := w
			if strings.Contains(bytes, "__Host-") {
				at = secure
			}
			if answer := at.exchange(bytes + "\r\n"); status(answer) != "200 OK" {
				t.Fatalf("%q", answer)
			}
		})
	}
	for _, secret := range []string{"sfp_", "sfc_", "sfcb_", "sfl_", "__service", "berth-port"} {
		if strings.Contains(app.got(), secret) {
			t.Fatalf("the app got %s: %q", secret, app.got())
		}
	}
	for _, kept := range []string{"GET /x?a=1&b=2 HTTP/1.1\r\n", "Cookie: a=1; b=2\r\n", "Referer: https://" + host + "/y?z\r\n"} {
		if !strings.Contains(app.got(), kept) {
			t.Fatalf("the app did not get %q: %q", kept, app.got())
		}
	}
}

func TestACredentialThatIsNoneIsRefusedWithoutAQuestion(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	plain := "GET /x HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	for name, each := range map[string]struct {
		bytes  string
		code   int
		reason string
	}{
		"none":                         {plain, 401, "credential_missing"},
		"the app's own":                {plain + "Authorization: Bearer eyJ\r\nCookie: a=b\r\n", 401, "credential_missing"},
		"a token of another shape":     {plain + "X-Service-Token: sfp_x\r\n", 401, "credential_invalid"},
		"no token":                     {plain + "X-Service-Token: x\r\n", 401, "credential_invalid"},
		"a token with a slash":         {plain + "Authorization: Bearer sfp_" + strings.Repeat("/", 43) + "\r\n", 401, "credential_invalid"},
		"the cookie of the other name": {plain + "Cookie: __Host-berth-port=" + cookie + "\r\n", 401, "credential_missing"},
		"a name with a twist":          {plain + "X_Service_Token: " + token + "\r\n", 401, "credential_missing"},
		"a path of the platform":       {strings.Replace(plain, "/x", "/__service/x", 1) + "X-Service-Token: " + token + "\r\n", 404, "path_reserved"},
		"the path itself":              {strings.Replace(plain, "/x", "/__service", 1) + "X-Service-Token: " + token + "\r\n", 404, "path_reserved"},
		"a callback of another shape":  {strings.Replace(plain, "/x", "/__service/callback/sfcb_x/", 1) + "X-Service-Token: " + token + "\r\n", 401, "credential_invalid"},
		"a link of another shape":      {strings.Replace(plain, "/x", "/__service/link?t=x", 1), 401, "credential_invalid"},
		"two links":                    {strings.Replace(plain, "/x", "/__service/link?t="+link+"&t="+link, 1), 401, "credential_invalid"},
	} {
		t.Run(name, func(t *testing.T) { expectRefusal(t, w.exchange(each.bytes+"\r\n"), each.code, each.reason) })
	}
	if w.cell.Asked() != 0 || app.got() != "" {
		t.Fatalf("%d questions, the app got %q", w.cell.Asked(), app.got())
	}
}

func TestAWrongCredentialCostsOneQuestionAndManyAreBounded(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	for range 20 {
		expectRefusal(t, w.exchange("GET / HTTP/1.1\r\nHost: "+host+"\r\nX-Service-Token: "+wrong+"\r\nConnection: close\r\n\r\n"), 401, "credential_invalid")
	}
	if asked := w.cell.Asked(); asked > 5 { // one a second
		t.Fatalf("%d questions", asked)
	}
	began, refused := time.Now(), 0
	for i := range 400 {
		guess := fmt.Sprintf("sfp_%043d", i)
		answer := w.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + guess + "\r\nConnection: close\r\n\r\n")
		if header(answer, "x-service-reason") == "too_many_requests" {
			expectRefusal(t, answer, 429, "too_many_requests")
			refused++
		}
	}
	if most := 105 + 50*int(time.Since(began).Seconds()+1); w.cell.Asked() > most {
		t.Fatalf("%d questions, at most %d, %d refused", w.cell.Asked(), most, refused)
	}
	if answer := w.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"); header(answer, "x-service-reason") != "credential_missing" {
		t.Fatalf("%q", answer)
	}
}

func TestASignedLinkBecomesACookieOfThisHost(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	open := "GET /__service/link?t=" + link + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	for name, each := range map[string]struct {
		at     *world
		cookie string
	}{
		"over TLS":    {newWorld(t, app.Addr(), public), "__Host-berth-port=" + cookie + "; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"},
		"without TLS": {w, "berth-port=" + cookie + "; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := each.at.exchange(open + "\r\n")
			if status(answer) != "303 See Other" || header(answer, "set-cookie") != each.cookie || header(answer, "location") != "/welcome?x=1" ||
				header(answer, "cache-control") != "no-store" || header(answer, "referrer-policy") != "no-referrer" {
				t.Fatalf("%q", answer)
			}
		})
	}
	expectRefusal(t, w.exchange(strings.Replace(open, "GET", "POST", 1)+"\r\n"), 405, "method_not_allowed")
	expectRefusal(t, w.exchange(strings.Replace(open, host, otherHost, 1)+"\r\n"), 401, "credential_invalid")
	if app.got() != "" {
		t.Fatalf("the app got %q", app.got())
	}
}

func TestACookieThatANeighbourSetLocksNobodyOut(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	tossed := strings.Repeat("berth-port=evil; ", 200)
	for i := range 31 {
		tossed += fmt.Sprintf("berth-port=sfc_%043d; berth-port=sfc_%043d; ", i, i)
	}
	answer := w.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nCookie: " + tossed + "berth-port=" + cookie + "\r\n\r\n")
	if status(answer) != "200 OK" {
		t.Fatalf("%q", answer)
	}
	asked := w.cell.Asked() // the valid cookie is tried first from now on
	w.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nCookie: " + strings.ReplaceAll(tossed, "sfc_0", "sfc_1") + "berth-port=" + cookie + "\r\n\r\n")
	if w.cell.Asked() != asked {
		t.Fatal(w.cell.Asked(), asked)
	}
}

func TestACookieOpensConnectionsAndWritesForItsOwnPagesAlone(t *testing.T) {
	app := answering(t, ok)
	w := newWorld(t, app.Addr())
	with := func(method string, fields ...string) string {
		return method + " / HTTP/1.1\r\nHost: " + host + "\r\nCookie: berth-port=" + cookie + "\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n"
	}
	upgrade := "Connection: close, Upgrade\r\nUpgrade: websocket"
	for name, bytes := range map[string]string{
		"a neighbour":           with("GET", upgrade, "Origin: http://3000-"+otherID+"."+portHost),
		"another port":          with("GET", upgrade, "Origin: http://3001-"+hostID+"."+portHost),
		"another scheme":        with("GET", upgrade, "Origin: https://"+host),
		"null":                  with("GET", upgrade, "Origin: null"),
		"none":                  with("GET", upgrade),
		"a write":               with("POST", "Connection: close\r\nOrigin: http://3000-"+otherID+"."+portHost),
		"two":                   with("POST", "Connection: close\r\nOrigin: http://"+host+"\r\nOrigin: http://"+otherHost),
		"a neighbour's, deeper": with("DELETE", "Connection: close\r\nOrigin: https://1-"+otherID+"."+portHost+":444"),
		// A page of another workspace sends a null origin under `Referrer-Policy: no-referrer`.
		"a write of null":              with("POST", "Connection: close\r\nOrigin: null\r\nSec-Fetch-Site: same-site"),
		"a write of null, unsaid":      with("DELETE", "Connection: close\r\nOrigin: null"),
		"a write without an origin":    with("POST", "Connection: close"),
		"an origin of no port":         with("POST", "Connection: close\r\nOrigin: http://"+portHost),
		"an origin from outside":       with("POST", "Connection: close\r\nOrigin: http://evil.test\r\nSec-Fetch-Site: cross-site"),
		"an origin with a path":        with("POST", "Connection: close\r\nOrigin: http://"+host+"/"),
		"an origin of another scheme":  with("POST", "Connection: close\r\nOrigin: https://"+host),
		"an origin at another port":    with("POST", "Connection: close\r\nOrigin: http://"+host+":81"),
		"an empty origin":              with("POST", "Connection: close\r\nOrigin:"),
		"two sites":                    with("POST", "Connection: close\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Site: same-site"),
		"a site with another spelling": with("POST", "Connection: close\r\nSec_Fetch_Site: same-origin"),
		"own site, two origins":        with("POST", "Connection: close\r\nSec-Fetch-Site: same-origin\r\nOrigin: null\r\nOrigin: null"),
	} {
		t.Run(name, func(t *testing.T) { expectRefusal(t, w.exchange(bytes), 403, "origin_refused") })
	}
	if w.cell.Asked() != 0 {
		t.Fatalf("%d questions", w.cell.Asked())
	}
	for name, bytes := range map[string]string{
		"its own write":                   with("POST", "Connection: close\r\nOrigin: http://"+host),
		"another port's write":            with("POST", "Connection: close\r\nOrigin: http://3001-"+hostID+"."+portHost),
		"its own write, by the site":      with("POST", "Connection: close\r\nOrigin: null\r\nSec-Fetch-Site: same-origin"),
		"a write of no page":              with("PUT", "Connection: close\r\nSec-Fetch-Site: none"),
		"another port's write, same site": with("POST", "Connection: close\r\nSec-Fetch-Site: same-site\r\nOrigin: http://3001-"+hostID+"."+portHost),
		"a token's write":                 strings.Replace(with("POST", "Connection: close\r\nOrigin: null"), "Cookie: berth-port="+cookie, "X-Service-Token: "+token, 1),
		"a read of a neighbour":           with("GET", "Connection: close\r\nOrigin: http://"+otherHost),
	} {
		if answer := w.exchange(bytes); status(answer) != "200 OK" {
			t.Errorf("%s: %q", name, answer)
		}
	}
}

func TestABrowserGetsAPageAndAProgramAnEnvelope(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	bytes := "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	page := w.exchange(bytes + "Accept: text/html,*/*\r\n\r\n")
	if header(page, "content-type") != "text/html; charset=utf-8" || !strings.Contains(page, "<p>This port is private") {
		t.Fatalf("%q", page)
	}
	envelope := w.exchange(bytes + "\r\n")
	if header(envelope, "content-type") != "application/json" || !strings.Contains(envelope, `"code":"unauthenticated"`) ||
		!strings.Contains(envelope, `"request_id":"`+header(envelope, "x-request-id")+`"`) || header(envelope, "www-authenticate") == "" {
		t.Fatalf("%q", envelope)
	}
	if head := w.exchange(strings.Replace(bytes, "GET", "HEAD", 1) + "\r\n"); !strings.HasSuffix(head, "\r\n\r\n") {
		t.Fatalf("%q", head)
	}
}

func TestALargeBodyWithoutARightIsRefusedAudibly(t *testing.T) {
	w := newWorld(t, answering(t, ok).Addr())
	answer := w.exchange("POST / HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 5000000\r\n\r\n" + strings.Repeat("x", 5_000_000))
	expectRefusal(t, answer, 401, "credential_missing")
}
