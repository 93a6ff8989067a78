//! Errors in the wording of the Go library, for comparison with Kyverno's output.
//!
//! Upstream counterpart: the messages of go.yaml.in/yaml/v2. An error that is not listed keeps our wording.

use super::{Error, ErrorKind, parse_collection::AFTER_QUOTE};

impl Error {
    /// The Go library's message.
    pub fn go_text(&self) -> String {
        if self.kind() == ErrorKind::Number {
            let sign = if self.message().contains('-') { '-' } else { '+' };
            let nan = self.message().to_ascii_lowercase().contains("nan");
            return if nan {
                "json: unsupported value: NaN".to_owned()
            } else {
                format!("json: unsupported value: {sign}Inf")
            };
        }
        let words = words(self.message());
        match self.go_line() {
            Some(line) => format!("yaml: line {line}: {words}"),
            None => format!("yaml: {words}"),
        }
    }
}

fn words(message: &str) -> String {
    let fixed = match message {
        "expected a value" => "did not find expected node content",
        "expected `-` or the end of the list" => "did not find expected '-' indicator",
        "expected a key or the end of the map" | AFTER_QUOTE => "did not find expected key",
        "expected `,` or `]`" => "did not find expected ',' or ']'",
        "expected `,` or `}`" => "did not find expected ',' or '}'",
        "a second `%YAML`" => "found duplicate %YAML directive",
        "only YAML 1.1 is read" => "found incompatible YAML document",
        "a second `%TAG` for the same handle" => "found duplicate %TAG directive",
        "a tab cannot indent or start a value" => "found character that cannot start any token",
        "this line needs a `:` after its key" => "could not find expected ':'",
        "a list entry cannot start here" => "block sequence entries are not allowed in this context",
        "a key cannot start here" => "mapping keys are not allowed in this context",
        "unexpected `: `; quote a value that contains it" => "mapping values are not allowed in this context",
        "a tab cannot indent the continuation of a value" => "found a tab character that violates indentation",
        "a document marker inside a quoted value" => "found unexpected document indicator",
        "this quoted value never ends" => "found unexpected end of stream",
        "the indentation of a block must be 1 to 9" => "found an indentation indicator equal to 0",
        "only a comment may follow the start of a block on its line"
        | "only a comment may follow a directive on its line" => "did not find expected comment or line break",
        "a tab cannot indent a block" => "found a tab character where an indentation space is expected",
        "a space must follow the tag" => "did not find expected whitespace or line break",
        "`%` starts a directive, which needs a name" => "could not find expected directive name",
        "a directive's name has letters only" => "found unexpected non-alphabetical character",
        "this tag needs a `>`" => "did not find the expected '>'",
        "only a map, or a list of maps, can be merged" => "map merge requires map or sequence of maps as the value",
        "this `!!binary` is not base64" => "!!binary value contains invalid base64 data",
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    let between = |before: &str, after: &str| message.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    if let Some(name) = between("unknown anchor `", "`") {
        return format!("unknown anchor '{name}' referenced");
    }
    if message.starts_with("unknown tag handle") {
        return "found undefined tag handle".to_owned();
    }
    if message.ends_with("cannot start a value") {
        return "found character that cannot start any token".to_owned();
    }
    if message.starts_with("unknown escape") {
        return "found unknown escape character".to_owned();
    }
    if message.ends_with("hexadecimal digits") && message.starts_with("this escape") {
        return "did not find expected hexdecimal number".to_owned();
    }
    if message.starts_with("the name of an a") {
        return "did not find expected alphabetic or numeric character".to_owned();
    }
    if message.starts_with("the character U+") {
        return "control characters are not allowed".to_owned();
    }
    message.to_owned()
}
