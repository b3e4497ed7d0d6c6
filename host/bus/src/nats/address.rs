//! The broker's URL.

use super::error::BusError;
use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

/// The servers of a broker.
pub(super) struct Servers {
    /// The addresses, without user names, passwords and tokens.
    pub(super) addresses: Vec<ServerAddr>,
    /// How to log in to each of them.
    pub(super) login: Option<Login>,
}

/// The login of a URL.
#[derive(PartialEq, Eq)]
pub(super) enum Login {
    Password { user: String, password: String },
    Token(String),
}

impl Servers {
    /// Parses a broker's URL.
    pub(super) fn parse(url: &str) -> Result<Self, BusError> {
        let wrong =
            |reason: String| BusError::BadUrl { url: without_login(url).to_owned(), reason };
        let mut servers = Self { addresses: vec![], login: None };
        for part in url.split(',') {
            let (address, login) = parse_address(part.trim()).map_err(wrong)?;
            servers.addresses.push(address);
            match login {
                None => {}
                Some(login) if servers.login.as_ref().is_none_or(|known| *known == login) => {
                    servers.login = Some(login);
                }
                Some(_) => return Err(wrong("the addresses have different logins".to_owned())),
            }
        }
        Ok(servers)
    }

    /// The URL of each server, with the login.
    pub(super) fn urls(&self) -> Vec<String> {
        let with_login = |address: &ServerAddr| {
            let mut url = address.clone().into_inner();
            let (user, password) = match &self.login {
                None => ("", None),
                Some(Login::Token(token)) => (&**token, None),
                Some(Login::Password { user, password }) => (&**user, Some(&**password)),
            };
            // Both fail only for URLs without a host.
            let _ = (url.set_username(user), url.set_password(password));
            url.to_string()
        };
        self.addresses.iter().map(with_login).collect()
    }

    /// The addresses, to show to people.
    pub(super) fn shown(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(ServerAddr::as_url_str).collect();
        addresses.join(", ")
    }
}

/// The address without its login, and the login.
fn parse_address(address: &str) -> Result<(ServerAddr, Option<Login>), String> {
    if address.is_empty() {
        return Err("an address is empty".to_owned());
    }
    let parsed: ServerAddr = address.parse().map_err(|error: std::io::Error| error.to_string())?;
    if !["nats", "tls"].contains(&parsed.scheme()) {
        return Err(format!("{}:// is not supported", parsed.scheme()));
    }
    if parsed.host().is_empty() {
        return Err("the host is missing".to_owned());
    }
    let mut url = parsed.into_inner();
    let user = decoded(url.username())?;
    let login = match url.password() {
        Some(password) => Some(Login::Password { user, password: decoded(password)? }),
        None if user.is_empty() => None,
        None => Some(Login::Token(user)),
    };
    // Both fail only for URLs without a host.
    let _ = (url.set_username(""), url.set_password(None));
    let address = ServerAddr::from_url(url).map_err(|error| error.to_string())?;
    Ok((address, login))
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "the login is not UTF-8".to_owned())?.into_owned())
}

/// The last part of a URL that may be wrong, without any login.
pub(super) fn without_login(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(url: &str) -> (Option<String>, Option<String>) {
        match Servers::parse(url).unwrap().login {
            None => (None, None),
            Some(Login::Password { user, password }) => (Some(user), Some(password)),
            Some(Login::Token(token)) => (Some(token), None),
        }
    }

    #[test]
    fn addresses_are_shown_without_logins() {
        let servers = Servers::parse("nats://a:p%40w@one:4222, tls://two:4333,three").unwrap();
        assert_eq!(servers.shown(), "nats://one:4222, tls://two:4333, nats://three");
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(login("nats://a:p%40w@one,nats://a:p%40w@two"), (some("a"), some("p@w")));
        let servers = Servers::parse("nats://a:p%40w@one:4222,tls://two:4333").unwrap();
        assert_eq!(servers.urls(), ["nats://a:p%40w@one:4222", "tls://a:p%40w@two:4333"]);
        assert_eq!(Servers::parse("t%2Fk@one,two").unwrap().urls()[1], "nats://t%2Fk@two");
        assert_eq!(login("nats://secret@one"), (some("secret"), None));
        assert_eq!(login("nats://127.0.0.1:4222"), (None, None));
    }

    #[test]
    fn wrong_urls_are_refused_without_showing_a_password() {
        let cases = [
            ("", "an address is empty"),
            ("nats://one,,nats://two", "an address is empty"),
            ("nats://u:password@one:port", "invalid port number"),
            ("nats://u:password,2@one", "invalid port number"),
            ("ws://one", "ws:// is not supported"),
            ("http://u:password@one", "http"),
            ("nats://u:password@", "host"),
            ("nats://a:password@one,nats://b:password@two", "different logins"),
        ];
        for (url, reason) in cases {
            let error = Servers::parse(url).err().unwrap().to_string();
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("password"), "{url}: {error}");
        }
    }
}
