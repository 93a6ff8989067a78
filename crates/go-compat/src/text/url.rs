//! URLs.
//!
//! Upstream counterpart: Go `net/url` (1.26, with its strict rules for colons in hosts), error messages included.
//! Decoded parts are bytes, because percent-encoding can express invalid UTF-8.

use std::borrow::Cow;

use super::{ip::parse_addr, quote::quote_bytes};

#[derive(Debug, Clone, Default)]
pub struct Url {
    scheme: String,
    opaque: String,
    user: Option<User>,
    host: Vec<u8>,
    path: Vec<u8>,
    raw_path: String,
    query: String,
    force_query: bool,
    fragment: Vec<u8>,
    raw_fragment: String,
    omit_host: bool,
}

#[derive(Debug, Clone)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// The part of a URL being escaped or unescaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// Parses a URL, absolute or relative, with a fragment; the error is Go's message.
///
/// Upstream: `url.Parse`.
pub fn parse(text: &str) -> Result<Url, String> {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse_parts(before, false).map_err(|error| in_parse(before, &error))?;
    if !fragment.is_empty() {
        url.fragment = unescape(fragment.as_bytes(), Part::Fragment).map_err(|error| in_parse(text, &error))?;
        if escape(&url.fragment, Part::Fragment) != fragment {
            fragment.clone_into(&mut url.raw_fragment);
        }
    }
    Ok(url)
}

/// Parses an absolute URI or an absolute path, as in an HTTP request; the error is Go's message.
///
/// Upstream: `url.ParseRequestURI`.
pub fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse_parts(text, true).map_err(|error| in_parse(text, &error))
}

fn in_parse(text: &str, error: &str) -> String {
    format!("parse {}: {error}", quote_bytes(text.as_bytes()))
}

fn fail<T>(error: &str) -> Result<T, String> {
    Err(error.to_owned())
}

fn parse_parts(text: &str, via_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return fail("net/url: invalid control character in URL");
    }
    if text.is_empty() && via_request {
        return fail("empty url");
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, mut rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    match rest.split_once('?') {
        Some((before, "")) => {
            url.force_query = true;
            rest = before;
        }
        Some((before, query)) => {
            query.clone_into(&mut url.query);
            rest = before;
        }
        None => {}
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if via_request {
            return fail("invalid URI for request");
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return fail("first path segment in URL cannot contain colon");
        }
    }
    let has_authority = !url.scheme.is_empty() || !via_request && !rest.starts_with("///");
    if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = authority.find('/').unwrap_or(authority.len());
        (url.user, url.host) = parse_authority(&url.scheme, &authority[..end])?;
        rest = &authority[end..];
    } else if !url.scheme.is_empty() && rest.starts_with('/') {
        url.omit_host = true;
    }
    url.path = unescape(rest.as_bytes(), Part::Path)?;
    if escape(&url.path, Part::Path) != rest {
        rest.clone_into(&mut url.raw_path);
    }
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return fail("missing protocol scheme"),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_authority(scheme: &str, authority: &str) -> Result<(Option<User>, Vec<u8>), String> {
    let Some((info, host)) = authority.rsplit_once('@') else {
        return Ok((None, parse_host(scheme, authority)?));
    };
    let host = parse_host(scheme, host)?;
    if !info
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte))
    {
        return fail("net/url: invalid userinfo");
    }
    let (name, password) = match info.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (info, None),
    };
    let name = unescape(name.as_bytes(), Part::User)?;
    let password = password
        .map(|password| unescape(password.as_bytes(), Part::User))
        .transpose()?;
    Ok((Some(User { name, password }), host))
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => return parse_bracketed(host),
        Some(_) => return fail("invalid IP-literal"),
        None => {}
    }
    // Database URLs list several hosts, so only `http` and `https` are strict about colons.
    let colon = if matches!(scheme, "http" | "https") {
        host.find(':')
    } else {
        host.rfind(':')
    };
    if let Some(port) = colon.map(|colon| &host[colon..])
        && !is_optional_port(port.as_bytes())
    {
        return Err(format!("invalid port {} after host", quote_bytes(port.as_bytes())));
    }
    unescape(host.as_bytes(), Part::Host)
}

fn parse_bracketed(host: &str) -> Result<Vec<u8>, String> {
    let Some(close) = host.rfind(']') else {
        return fail("missing ']' in host");
    };
    let port = &host[close + 1..];
    if !is_optional_port(port.as_bytes()) {
        return Err(format!("invalid port {} after host", quote_bytes(port.as_bytes())));
    }
    let name = &host[1..close];
    let mut decoded;
    if let Some(zone) = name.find("%25") {
        decoded = unescape(&name.as_bytes()[..zone], Part::Host)?;
        decoded.extend(unescape(&name.as_bytes()[zone..], Part::Zone)?);
    } else {
        decoded = unescape(name.as_bytes(), Part::Host)?;
    }
    let addr = parse_addr(&decoded).map_err(|error| format!("invalid host: {error}"))?;
    if addr.is_v4() {
        return fail("invalid IP-literal");
    }
    Ok([b"[", decoded.as_slice(), b"]", port.as_bytes()].concat())
}

/// Empty, or a colon and digits.
fn is_optional_port(port: &[u8]) -> bool {
    match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_kept(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return true;
    }
    let kept: &[u8] = match part {
        Part::Path => b"$&+,/:;=@",
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
        Part::User => b"$&+,;=",
        Part::Query => b"",
        Part::Fragment => b"$&+,/:;=?@!()*",
    };
    kept.contains(&byte)
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if is_kept(byte, part) {
            out.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while let Some(&byte) = text.get(i) {
        match byte {
            b'%' => {
                let escape = &text[i..text.len().min(i + 3)];
                let hex = |at: usize| escape.get(at).and_then(|&byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (hex(1), hex(2)) else {
                    return Err(format!("invalid URL escape {}", quote_bytes(escape)));
                };
                let decoded = (high << 4 | low) as u8;
                let refused = match part {
                    Part::Host => high < 8,
                    Part::Zone => decoded != b' ' && !is_kept(decoded, Part::Host),
                    Part::Path | Part::User | Part::Query | Part::Fragment => false,
                };
                if refused && escape != b"%25" {
                    return Err(format!("invalid URL escape {}", quote_bytes(escape)));
                }
                out.push(decoded);
                i += 3;
                continue;
            }
            b'+' if part == Part::Query => out.push(b' '),
            _ if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !is_kept(byte, part) => {
                return Err(format!("invalid character {} in host name", quote_bytes(&[byte])));
            }
            _ => out.push(byte),
        }
        i += 1;
    }
    Ok(out)
}

/// Reports whether a string is a valid escaped form of a path or fragment.
fn is_valid_escaped(text: &str, part: Part) -> bool {
    text.bytes()
        .all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || is_kept(byte, part))
}

/// A query with more pairs than this reads as empty.
const MAX_QUERY_PAIRS: usize = 10_000;

/// One key of a query with its values, decoded.
pub(crate) type QueryEntry = (Vec<u8>, Vec<Vec<u8>>);

/// The fields of Go's `url.URL`.
pub struct Fields<'u> {
    /// Text fields by name.
    pub texts: [(&'static str, Cow<'u, str>); 8],
    pub user: bool,
    /// A `?` without a query.
    pub force_query: bool,
    /// An empty host is not written.
    pub omit_host: bool,
}

impl Url {
    pub fn fields(&self) -> Fields<'_> {
        Fields {
            texts: [
                ("Scheme", Cow::Borrowed(self.scheme.as_str())),
                ("Opaque", Cow::Borrowed(self.opaque.as_str())),
                ("Host", String::from_utf8_lossy(&self.host)),
                ("Path", String::from_utf8_lossy(&self.path)),
                ("RawPath", Cow::Borrowed(self.raw_path.as_str())),
                ("RawQuery", Cow::Borrowed(self.query.as_str())),
                ("Fragment", String::from_utf8_lossy(&self.fragment)),
                ("RawFragment", Cow::Borrowed(self.raw_fragment.as_str())),
            ],
            user: self.user.is_some(),
            force_query: self.force_query,
            omit_host: self.omit_host,
        }
    }

    /// In lower case; may be empty.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Includes the port; decoded.
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    fn split_host(&self) -> (&[u8], &[u8]) {
        let colon = self.host.iter().rposition(|&byte| byte == b':');
        let (host, port) = match colon {
            Some(colon) if is_optional_port(&self.host[colon..]) => (&self.host[..colon], &self.host[colon + 1..]),
            _ => (self.host.as_slice(), [].as_slice()),
        };
        let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
        (bare.unwrap_or(host), port)
    }

    /// The host without its port and brackets.
    pub fn hostname(&self) -> &[u8] {
        self.split_host().0
    }

    /// May be empty.
    pub fn port(&self) -> &[u8] {
        self.split_host().1
    }

    /// The path, escaped as written if that is valid.
    pub fn escaped_path(&self) -> Cow<'_, str> {
        if !self.raw_path.is_empty() && is_valid_escaped(&self.raw_path, Part::Path) {
            Cow::Borrowed(&self.raw_path)
        } else if self.path == b"*" {
            Cow::Borrowed("*")
        } else {
            Cow::Owned(escape(&self.path, Part::Path))
        }
    }

    fn escaped_fragment(&self) -> Cow<'_, str> {
        if !self.raw_fragment.is_empty() && is_valid_escaped(&self.raw_fragment, Part::Fragment) {
            Cow::Borrowed(&self.raw_fragment)
        } else {
            Cow::Owned(escape(&self.fragment, Part::Fragment))
        }
    }

    /// The query's keys and values, in order of first occurrence; pairs that do not decode are dropped.
    ///
    /// Upstream: `URL.Query`.
    pub fn query(&self) -> Vec<QueryEntry> {
        let mut entries: Vec<QueryEntry> = Vec::new();
        let mut index = rustc_hash::FxHashMap::default();
        if self.query.bytes().filter(|&byte| byte == b'&').count() >= MAX_QUERY_PAIRS {
            return entries;
        }
        for pair in self.query.split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(key), Ok(value)) = (
                unescape(key.as_bytes(), Part::Query),
                unescape(value.as_bytes(), Part::Query),
            ) else {
                continue;
            };
            let at = *index.entry(key.clone()).or_insert(entries.len());
            match entries.get_mut(at) {
                Some((_, values)) => values.push(value),
                None => entries.push((key, vec![value])),
            }
        }
        entries
    }
}

impl std::fmt::Display for Url {
    /// Prints the URL as Go's `URL.String` does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if !self.opaque.is_empty() {
            out.push_str(&self.opaque);
        } else {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if has_authority || !self.scheme.is_empty() && !self.omit_host && !self.path.is_empty() {
                out.push_str("//");
            }
            if let Some(user) = &self.user {
                out.push_str(&escape(&user.name, Part::User));
                if let Some(password) = &user.password {
                    out.push(':');
                    out.push_str(&escape(password, Part::User));
                }
                out.push('@');
            }
            out.push_str(&escape(&self.host, Part::Host));
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            if out.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        }
        if self.force_query || !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&self.escaped_fragment());
        }
        f.write_str(&out)
    }
}
