//! Which requests are let in: those of the page, which knows the token.
//!
//! A page of another site cannot read an answer, and it cannot guess the token. A request that a browser sends for
//! another site, or to another name of this machine, is refused anyway.

/// A request, before anything of it is believed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request<'r> {
    pub(crate) is_get: bool,
    /// Path and query.
    pub(crate) url: &'r str,
    pub(crate) host: Option<&'r str>,
    pub(crate) origin: Option<&'r str>,
    /// What the browser says about the site that asks.
    pub(crate) site: Option<&'r str>,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted<'r> {
    /// A file of the page.
    File(&'r str),
    /// A request to the interface, and its query.
    Answer { name: &'r str, query: &'r str },
    /// Nothing: the status of the refusal.
    Refused(u16),
}

impl<'r> Request<'r> {
    /// Examines the request to a server at a port with a token.
    pub(crate) fn examine(&self, port: u16, token: &str) -> Wanted<'r> {
        let names = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let is_own_host = self.host.is_some_and(|host| names.iter().any(|name| name == host));
        let is_own_origin = self.origin.is_none_or(|origin| {
            names.iter().any(|name| origin.strip_prefix("http://").is_some_and(|origin| origin == name))
        });
        let is_own_site = self.site.is_none_or(|site| matches!(site, "same-origin" | "none"));
        if !is_own_host || !is_own_origin {
            return Wanted::Refused(403);
        }
        let (path, query) = self.url.split_once('?').unwrap_or((self.url, ""));
        let Some((given, path)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return Wanted::Refused(403);
        };
        if !is_equal(given, token) {
            return Wanted::Refused(403);
        }
        if !self.is_get {
            return Wanted::Refused(405);
        }
        match path.strip_prefix("api/") {
            Some(_) if !is_own_site => Wanted::Refused(403),
            Some(name) => Wanted::Answer { name, query },
            None => Wanted::File(path),
        }
    }
}

/// Compares without an end at the first difference.
fn is_equal(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page<'r>(url: &'r str) -> Request<'r> {
        Request { is_get: true, url, host: Some("127.0.0.1:99"), origin: None, site: Some("same-origin") }
    }

    fn examine<'r>(request: &Request<'r>) -> Wanted<'r> {
        request.examine(99, "secret")
    }

    #[test]
    fn only_the_page_is_answered() {
        assert_eq!(examine(&page("/secret/")), Wanted::File(""));
        assert_eq!(examine(&page("/secret/page.js")), Wanted::File("page.js"));
        let wanted = Wanted::Answer { name: "rows", query: "from=1" };
        assert_eq!(examine(&page("/secret/api/rows?from=1")), wanted);
        let own = Request { origin: Some("http://localhost:99"), ..page("/secret/api/rows?from=1") };
        assert_eq!(examine(&own), wanted);
        for url in [
            "/",
            "",
            "/secret",
            "/Secret/",
            "/secre/",
            "/secrett/",
            "/../secret/",
            "//secret/",
            "secret/",
            "/?/secret/",
        ] {
            assert_eq!(examine(&page(url)), Wanted::Refused(403), "{url}");
        }
        let base = || page("/secret/api/rows");
        let others = [
            Request { host: None, ..base() },
            Request { host: Some("evil.example:99"), ..base() },
            Request { host: Some("127.0.0.1:98"), ..base() },
            Request { origin: Some("http://evil.example"), ..base() },
            Request { origin: Some("null"), ..base() },
            Request { origin: Some("https://127.0.0.1:99"), ..base() },
            Request { site: Some("cross-site"), ..base() },
            Request { site: Some("same-site"), ..base() },
        ];
        for request in others {
            assert_eq!(examine(&request), Wanted::Refused(403), "{request:?}");
        }
        assert_eq!(examine(&Request { is_get: false, ..base() }), Wanted::Refused(405));
    }
}
