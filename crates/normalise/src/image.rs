//! Image names: whether the tag is `latest`, which decides the default of `imagePullPolicy`.
//!
//! Upstream counterpart: `pkg/util/parsers/parsers.go` and `github.com/distribution/reference`.

/// Whether a name without digest has the tag `latest` or none. `false` for names that cannot be parsed.
pub(crate) fn is_latest(image: &str) -> bool {
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last..].find(':') {
        Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
        None => (rest, None),
    };
    is_name(name)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
        && match tag {
            Some(tag) => tag == "latest",
            None => digest.is_none(),
        }
}

fn is_name(name: &str) -> bool {
    const LONGEST: usize = 255;
    let path = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first => {
            if !is_domain(first) {
                return false;
            }
            rest
        }
        _ => name,
    };
    // Names without a slash are those of Docker's library.
    let library = if path.contains('/') { "" } else { "library/" };
    library.len() + path.len() <= LONGEST && path.split('/').all(is_component)
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit())) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    }
    host.split('.').all(|label| {
        let bytes = label.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    })
}

/// Lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`.
fn is_component(component: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    if !bytes.first().is_some_and(|b| is_letter(*b)) || !bytes.last().is_some_and(|b| is_letter(*b)) {
        return false;
    }
    bytes.split(|b| is_letter(*b)).all(|separator| match separator {
        [] | b"." | b"_" | b"__" => true,
        many => many.iter().all(|b| *b == b'-'),
    })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = tag.as_bytes();
    (1..=128).contains(&bytes.len()) && word(bytes[0]) && bytes.iter().all(|b| word(*b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty()
            && algorithm
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+._-".contains(&b))
            && hex.len() >= 32
            && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}
