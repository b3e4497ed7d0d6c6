//! A browser without scripts: it keeps cookies, and sends forms as people do.

use crate::job_server::JobServer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use ureq::http::Request;

/// The name of the field that each form of a session has.
pub const FORM_SECRET: &str = "form_secret";

/// A browser that visits the pages at one address.
#[derive(Debug)]
pub struct Browser {
    url: String,
    cookies: RefCell<BTreeMap<String, String>>,
    /// The secret of the session's forms, as the last page had it.
    secret: RefCell<String>,
}

/// What the browser got.
#[derive(Debug)]
pub struct Shown {
    /// The status.
    pub status: u16,
    /// The headers. Their names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub text: String,
}

impl Shown {
    /// The values of a header.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a header. Empty if there is none.
    pub fn header(&self, name: &str) -> String {
        self.all(name).next().unwrap_or_default().to_owned()
    }

    /// Panics if the status is another one.
    #[track_caller]
    pub fn has(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Panics if the page does not have this text.
    #[track_caller]
    pub fn shows(self, text: &str) -> Self {
        assert!(self.text.contains(text), "no {text:?} in {self:?}");
        self
    }
}

impl Browser {
    /// A browser without cookies.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), cookies: RefCell::default(), secret: RefCell::default() }
    }

    /// A browser whose user has signed in with this token.
    pub fn signed_in(server: &JobServer, token: &str) -> Self {
        let browser = Self::new(server.url());
        browser.get("/portal/sign-in").has(200);
        browser.post("/portal/sign-in", &[("token", token)]).has(303);
        browser.get("/portal/jobs");
        browser
    }

    /// The secret of the session's forms.
    pub fn secret(&self) -> String {
        self.secret.borrow().clone()
    }

    /// Sends a request with these headers, beside the cookies. Follows no redirect.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Shown {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let cookies = self.cookies.borrow().clone();
        let cookies: Vec<_> =
            cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        let agent = config.max_redirects_will_error(false).build().new_agent();
        let mut answer = agent.run(request.body(body).unwrap()).unwrap();
        let headers = answer.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let headers: Vec<_> = headers.collect();
        let status = answer.status().as_u16();
        let mut bytes = Vec::new();
        answer.body_mut().as_reader().read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let shown = Shown { status, headers, text };
        self.note(&shown);
        shown
    }

    fn note(&self, shown: &Shown) {
        for cookie in shown.all("set-cookie") {
            let (name, rest) = cookie.split_once('=').unwrap();
            let value = rest.split(';').next().unwrap_or_default();
            self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned());
        }
        let field = format!("name=\"{FORM_SECRET}\" value=\"");
        if let Some((_, rest)) = shown.text.split_once(&field) {
            *self.secret.borrow_mut() = rest.split('"').next().unwrap_or_default().to_owned();
        }
    }

    /// Loads a page.
    pub fn get(&self, path: &str) -> Shown {
        self.send("GET", path, &[], b"")
    }

    /// Sends a form of the last page.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let secret = self.secret();
        let fields = [&[(FORM_SECRET, secret.as_str())], fields].concat();
        self.post_without_secret(path, &fields)
    }

    /// Sends a form, with only these fields.
    pub fn post_without_secret(&self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let pairs: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        self.send("POST", path, &kind, pairs.join("&").as_bytes())
    }

    /// Sends a form of the last page that may have a file: its field, its name and its content.
    pub fn post_file(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        file: Option<(&str, &str, &[u8])>,
    ) -> Shown {
        let secret = self.secret();
        let mut body = Vec::new();
        for (name, value) in [&[(FORM_SECRET, secret.as_str())], fields].concat() {
            let head = format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend([head.as_bytes(), value.as_bytes(), b"\r\n"].concat());
        }
        let (name, file_name, content) = file.unwrap_or(("component", "", b""));
        let head = format!(
            "--x\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{file_name}\"\r\n\r\n"
        );
        body.extend([head.as_bytes(), content, b"\r\n--x--\r\n"].concat());
        self.send("POST", path, &[("content-type", "multipart/form-data; boundary=x")], &body)
    }
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
