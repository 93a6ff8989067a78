//! What a function implementation may use: scratch memory, the profile, and the host behind the libraries that reach
//! outside of the expression.

use std::{cell::OnceCell, fmt};

use bumpalo::Bump;
use typed_arena::Arena;

use super::{
    host::Host,
    profile::Profile,
    val::{Opaque, Val},
};
use crate::value::{Document, Value};

/// The memory of one evaluation. Reset it and the next evaluation uses it again.
#[derive(Default)]
pub struct Scratch {
    bump: Bump,
    opaques: OnceCell<Arena<Box<dyn Opaque>>>,
    documents: OnceCell<Arena<Document>>,
}

impl Scratch {
    /// Empty scratch memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Text that lives until the next reset.
    pub fn text(&self, text: &str) -> &str {
        self.bump.alloc_str(text)
    }

    /// Forgets all values, keeps the memory.
    pub fn reset(&mut self) {
        self.bump.reset();
        self.opaques.take();
        self.documents.take();
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("bytes", &self.bump.allocated_bytes())
            .finish_non_exhaustive()
    }
}

/// What a function implementation gets besides its arguments.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    scratch: &'a Scratch,
    /// The environment's rules.
    pub profile: &'a Profile,
    /// The world outside of the expression.
    pub host: &'a dyn Host,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("scratch", self.scratch)
            .finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    /// A context over some scratch memory.
    pub fn new(scratch: &'a Scratch, profile: &'a Profile, host: &'a dyn Host) -> Self {
        Self { scratch, profile, host }
    }

    /// The bump arena, for building lists in place.
    pub(crate) fn bump(&self) -> &'a Bump {
        &self.scratch.bump
    }

    /// Text that lives as long as the evaluation.
    pub fn text(&self, text: &str) -> &'a str {
        self.scratch.text(text)
    }

    /// A string value.
    pub fn string(&self, text: &str) -> Val<'a> {
        Val::String(self.text(text))
    }

    /// A bytes value.
    pub fn bytes(&self, bytes: &[u8]) -> Val<'a> {
        Val::Bytes(self.scratch.bump.alloc_slice_copy(bytes))
    }

    /// A list value.
    pub fn list(&self, items: &[Val<'a>]) -> Val<'a> {
        Val::List(self.scratch.bump.alloc_slice_copy(items))
    }

    /// A list of strings.
    pub fn strings<S: AsRef<str>>(&self, items: impl IntoIterator<Item = S>) -> Val<'a> {
        let items: Vec<Val<'a>> = items.into_iter().map(|item| self.string(item.as_ref())).collect();
        self.list(&items)
    }

    /// A map value; each key must occur once.
    pub fn map(&self, entries: &[(Val<'a>, Val<'a>)]) -> Val<'a> {
        Val::Map(self.scratch.bump.alloc_slice_copy(entries))
    }

    /// An optional that has a value.
    pub fn some(&self, value: Val<'a>) -> Val<'a> {
        Val::Optional(Some(self.scratch.bump.alloc(value)))
    }

    /// An error; the text may be formatted: `context.error(format_args!("no such key: {key}"))`.
    pub fn error(&self, text: fmt::Arguments<'_>) -> Val<'a> {
        match text.as_str() {
            Some(text) => Val::Error(text),
            None => {
                let mut out = bumpalo::collections::String::new_in(&self.scratch.bump);
                // Writing into memory cannot fail.
                let _ = fmt::Write::write_fmt(&mut out, text);
                Val::Error(out.into_bump_str())
            }
        }
    }

    /// A value of a library's own type.
    pub fn opaque(&self, value: impl Opaque) -> Val<'a> {
        let arena = self.scratch.opaques.get_or_init(|| Arena::with_capacity(4));
        let stored: &'a mut Box<dyn Opaque> = arena.alloc(Box::new(value));
        Val::Opaque(&**stored)
    }

    /// A value that came from outside, kept as long as the evaluation.
    pub fn document(&self, document: Document) -> Value<'a> {
        let arena = self.scratch.documents.get_or_init(|| Arena::with_capacity(1));
        let stored: &'a Document = arena.alloc(document);
        stored.root()
    }

    /// The answer of a function that does not take arguments of these types: `no such overload: f(t1, t2)`.
    pub fn no_such_overload(&self, function: &str, args: &[Val<'a>]) -> Val<'a> {
        if let Some(error) = args.iter().find(|arg| arg.is_error()) {
            return *error;
        }
        let types: Vec<&str> = args.iter().map(Val::type_name).collect();
        self.error(format_args!("no such overload: {function}({})", types.join(", ")))
    }
}
