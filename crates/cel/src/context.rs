//! The context of function implementations: scratch memory, the profile, and the host of libraries that reach outside
//! the expression.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
};

use bumpalo::Bump;
use typed_arena::Arena;

use super::{
    host::Host,
    library::pattern::Recent,
    print,
    profile::Profile,
    val::{Opaque, Val},
};
use kyvtest_go_compat::{
    regex::Regex,
    value::{Document, Value},
};

/// The work limit of one evaluation, in bytes created and steps of traversals.
///
/// Upstream charges next to nothing for some work (`list + list`, `replace`, `format`, the equality of nested lists)
/// and lets such an expression use all memory or run for hours. Other expressions within the cost limit stay far below
/// this one.
const WORK_LIMIT: u64 = 64 << 20;
/// How many pairs of state and byte count as one unit of work.
const SEARCH: usize = 8;
/// The work of a byte that a search may read.
const SCAN: usize = 4;
/// The work of one step of a traversal.
const STEP: u64 = 64;

/// The error of an evaluation that exceeds its work limit, which only a contrived expression does.
pub(crate) const WORK_LIMIT_EXCEEDED: &str = "operation cancelled: memory limit exceeded";

/// The memory of one evaluation; reusable after a reset.
#[derive(Default)]
pub struct Scratch {
    bump: Bump,
    opaques: OnceCell<Arena<Box<dyn Opaque>>>,
    documents: OnceCell<Arena<Document>>,
    /// The most recently compiled patterns.
    patterns: RefCell<Recent>,
    /// The work done so far.
    spent: Cell<u64>,
}

impl Scratch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies a string, which lives until the next reset.
    pub fn text(&self, text: &str) -> &str {
        self.bump.alloc_str(text)
    }

    /// Sets the work account; returns its previous state.
    pub(crate) fn account(&self, spent: u64) -> u64 {
        self.spent.replace(spent)
    }

    /// Whether the work limit was exceeded, which makes the evaluation an error.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.spent.get() > WORK_LIMIT
    }

    /// Drops all values, keeps the memory.
    pub fn reset(&mut self) {
        self.bump.reset();
        self.opaques.take();
        self.documents.take();
        self.patterns.get_mut().clear();
        self.spent.set(0);
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("bytes", &self.bump.allocated_bytes())
            .finish_non_exhaustive()
    }
}

/// The environment of a function implementation.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    scratch: &'a Scratch,
    pub profile: &'a Profile,
    /// Access to data outside the expression.
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
    pub fn new(scratch: &'a Scratch, profile: &'a Profile, host: &'a dyn Host) -> Self {
        Self { scratch, profile, host }
    }

    /// Charges work for bytes about to be created. If this returns false, the caller must not create them: the
    /// evaluation ends in an error, regardless of the returned value.
    #[inline]
    #[must_use]
    pub(crate) fn spend(&self, bytes: usize) -> bool {
        let spent = &self.scratch.spent;
        spent.set(spent.get().saturating_add(bytes as u64));
        spent.get() <= WORK_LIMIT
    }

    /// [`Context::spend`] for a list of some length.
    #[must_use]
    pub(crate) fn spend_items(&self, items: usize) -> bool {
        self.spend(items.saturating_mul(size_of::<Val<'_>>()))
    }

    /// Charges the work of traversing a whole value: parts that occur several times are stored once but visited each
    /// time.
    #[must_use]
    pub(crate) fn spend_walk(&self, value: Val<'_>) -> bool {
        let mut steps = self.steps();
        value.walk(&mut steps);
        self.spend(((self.steps() - steps) * STEP) as usize) && steps > 0
    }

    /// Charges the worst case of a search: each state of the automaton at each byte of the text. Searches within the
    /// cost limit stay far below it, except for short patterns with many states.
    #[must_use]
    pub(crate) fn spend_search(&self, regex: &Regex, text: &str) -> bool {
        self.spend((regex.states() as usize).saturating_mul(text.len()) / SEARCH)
    }

    /// Charges the work of one of several searches in a text.
    #[must_use]
    pub(crate) fn spend_scan(&self, bytes: usize) -> bool {
        self.spend(bytes.saturating_mul(SCAN))
    }

    /// The remaining steps.
    fn steps(&self) -> u64 {
        WORK_LIMIT.saturating_sub(self.scratch.spent.get()) / STEP
    }

    /// [`Val::equals`] within the limit of work.
    #[inline]
    pub(crate) fn equals(&self, a: &Val<'_>, b: &Val<'_>) -> Option<bool> {
        let nested = |value: &Val<'_>| value.is_list() || value.is_map() || matches!(value, Val::Optional(_));
        if !nested(a) || !nested(b) {
            return a.equals(b);
        }
        let before = self.steps();
        let mut steps = before;
        let result = a.equals_within(b, &mut steps);
        // With no step left the result is wrong, so the account is overdrawn.
        let _ = self.spend(((before - steps) * STEP + u64::from(steps == 0) * 2 * STEP) as usize);
        result
    }

    /// A value as Go prints it, for error messages.
    pub fn display(&self, value: Val<'_>) -> String {
        if self.spend_walk(value) {
            print::go_display(value)
        } else {
            String::new()
        }
    }

    /// The result of a function that exceeded the work limit.
    pub fn exhausted(&self) -> Val<'a> {
        Val::Error(WORK_LIMIT_EXCEEDED)
    }

    /// The patterns that the evaluation compiled last.
    pub(crate) fn recent_patterns(&self) -> &'a RefCell<Recent> {
        &self.scratch.patterns
    }

    /// The bump arena, for building lists in place.
    pub fn bump(&self) -> &'a Bump {
        &self.scratch.bump
    }

    /// Copies a string, which lives as long as the evaluation.
    pub fn text(&self, text: &str) -> &'a str {
        if self.spend(text.len()) {
            self.scratch.text(text)
        } else {
            ""
        }
    }

    /// A string value.
    pub fn string(&self, text: &str) -> Val<'a> {
        Val::String(self.text(text))
    }

    /// A bytes value.
    pub fn bytes(&self, bytes: &[u8]) -> Val<'a> {
        if !self.spend(bytes.len()) {
            return self.exhausted();
        }
        Val::Bytes(self.scratch.bump.alloc_slice_copy(bytes))
    }

    /// A list value.
    pub fn list(&self, items: &[Val<'a>]) -> Val<'a> {
        if !self.spend(size_of_val(items)) {
            return self.exhausted();
        }
        Val::List(self.scratch.bump.alloc_slice_copy(items))
    }

    /// A list of strings.
    pub(crate) fn strings<S: AsRef<str>>(&self, items: impl IntoIterator<Item = S>) -> Val<'a> {
        let items: Vec<Val<'a>> = items.into_iter().map(|item| self.string(item.as_ref())).collect();
        self.list(&items)
    }

    /// A map value; each key must occur once.
    pub fn map(&self, entries: &[(Val<'a>, Val<'a>)]) -> Val<'a> {
        if !self.spend(size_of_val(entries)) {
            return self.exhausted();
        }
        Val::Map(self.scratch.bump.alloc_slice_copy(entries))
    }

    /// An optional that has a value.
    pub fn some(&self, value: Val<'a>) -> Val<'a> {
        Val::Optional(Some(self.scratch.bump.alloc(value)))
    }

    /// An error; the message may be formatted: `context.error(format_args!("no such key: {key}"))`.
    pub fn error(&self, text: fmt::Arguments<'_>) -> Val<'a> {
        match text.as_str() {
            Some(text) => Val::Error(text),
            None => {
                let mut out = bumpalo::collections::String::new_in(&self.scratch.bump);
                // Writing into memory cannot fail.
                let _ = fmt::Write::write_fmt(&mut out, text);
                let _ = self.spend(out.len());
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

    /// Keeps an external value as long as the evaluation.
    pub fn document(&self, document: Document) -> Value<'a> {
        let arena = self.scratch.documents.get_or_init(|| Arena::with_capacity(1));
        let stored: &'a Document = arena.alloc(document);
        stored.root()
    }

    /// The error for arguments of unsupported types: `no such overload: f(t1, t2)`.
    pub(crate) fn no_such_overload(&self, function: &str, args: &[Val<'a>]) -> Val<'a> {
        if let Some(error) = args.iter().find(|arg| arg.is_error()) {
            return *error;
        }
        let types: Vec<&str> = args.iter().map(Val::type_name).collect();
        self.error(format_args!("no such overload: {function}({})", types.join(", ")))
    }
}
