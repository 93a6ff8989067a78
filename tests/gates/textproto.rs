//! The part of protobuf's text format that the declarations of the conformance tests use.

/// A message: its fields in order.
#[derive(Debug)]
pub(crate) struct Message(Vec<(String, Field)>);

#[derive(Debug)]
enum Field {
    Text(String),
    Message(Message),
}

impl Message {
    /// The name of the only field.
    pub(crate) fn only(&self) -> &str {
        match &self.0[..] {
            [(name, _)] => name,
            other => panic!("one field, not {other:?}"),
        }
    }

    /// All messages in a field.
    pub(crate) fn messages(&self, name: &str) -> impl Iterator<Item = &Message> {
        let fields = self.0.iter().filter(move |(field, _)| field == name);
        fields.filter_map(|(_, field)| match field {
            Field::Message(message) => Some(message),
            Field::Text(_) => None,
        })
    }

    /// The message in a field.
    pub(crate) fn message(&self, name: &str) -> &Message {
        let mut all = self.messages(name);
        all.next().unwrap_or_else(|| panic!("no message `{name}` in {self:?}"))
    }

    /// The scalar in a field, as text.
    pub(crate) fn text(&self, name: &str) -> &str {
        let texts = self.0.iter().find_map(|(field, value)| match value {
            Field::Text(text) if field == name => Some(text),
            _ => None,
        });
        texts.unwrap_or_else(|| panic!("no text `{name}` in {self:?}"))
    }
}

/// Parses a message.
///
/// # Panics
/// If the text is malformed.
pub(crate) fn parse(text: &str) -> Message {
    let mut tokens = text.split_whitespace();
    let message = fields(&mut tokens);
    assert!(tokens.next().is_none(), "trailing text in {text}");
    message
}

/// The fields up to a closing brace or the end; in these texts spaces separate all tokens.
fn fields<'t>(tokens: &mut impl Iterator<Item = &'t str>) -> Message {
    let mut fields_read = Vec::new();
    while let Some(token) = tokens.next() {
        if token == "}" {
            break;
        }
        let field = match token.strip_suffix(':') {
            Some(name) => {
                let text = tokens.next().expect("a scalar").trim_matches('"');
                (name.to_owned(), Field::Text(text.to_owned()))
            }
            None => {
                assert_eq!(tokens.next(), Some("{"), "after {token}");
                (token.to_owned(), Field::Message(fields(tokens)))
            }
        };
        fields_read.push(field);
    }
    Message(fields_read)
}
