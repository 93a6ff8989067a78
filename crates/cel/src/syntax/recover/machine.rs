//! Runs the program of the grammar over the tokens and recovers from errors.
//!
//! Upstream counterpart: the generated parser `parser/gen/cel_parser.go`, antlr4-go `parser.go` and
//! `error_strategy.go`, and cel-go's limits around them (`recoveryLimitErrorStrategy`, `recursionListener`). Calls are
//! kept on an explicit stack, so that nesting does not use the process's stack.

use super::{
    super::{lexer::Tok, options::ParseOptions},
    atn::{Atn, StateId, StateKind, Step},
    grammar::{Kind, Label, RULE_COUNT, Rule, token_name},
    predict::{NoViable, Predictor, Situation},
    symbols::{EOF, EPSILON, Symbols, symbol},
    tokens::{Stop, Token, TokenId, Tokens},
};
use crate::syntax::recover::grammar::{Body, RULES};

pub(super) type NodeId = usize;

/// The target of a node's label.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Token(Token),
    Node(NodeId),
}

/// A node of the parse tree.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) rule: Rule,
    pub(super) kind: Kind,
    parent: Option<NodeId>,
    /// The state from which the rule was called.
    caller: Option<StateId>,
    /// The token that was next when the rule began.
    pub(super) start: TokenId,
    pub(super) children: Vec<NodeId>,
    pub(super) parts: Vec<(Label, Part)>,
}

/// An error that waits for the end of the rule in which it happened.
enum Failure {
    NoViable(NoViable),
    /// The token, and the state and node that determine the expected tokens.
    Mismatch(TokenId, StateId, NodeId),
}

struct Frame {
    rule: Rule,
    /// Where the caller continues, and its label for the result.
    back_to: usize,
    label: Label,
    /// The caller's node.
    parent: Option<NodeId>,
    caller: Option<StateId>,
}

pub(super) struct Machine<'a, 'o> {
    atn: &'static Atn,
    options: &'o ParseOptions,
    pub(super) tokens: Tokens<'a>,
    predictor: Predictor,
    pub(super) nodes: Vec<Node>,
    state: Option<StateId>,
    node: Option<NodeId>,
    frames: Vec<Frame>,
    precedences: Vec<i32>,
    failure: Option<Failure>,
    /// Whether an error was reported and nothing has matched since.
    recovering: bool,
    last_error: Option<(TokenId, Vec<StateId>)>,
    recoveries: usize,
    depths: [usize; RULE_COUNT],
}

impl<'a, 'o> Machine<'a, 'o> {
    pub(super) fn new(tokens: Tokens<'a>, options: &'o ParseOptions) -> Self {
        Self {
            atn: Atn::get(),
            options,
            tokens,
            predictor: Predictor::new(),
            nodes: Vec::new(),
            state: None,
            node: None,
            frames: Vec::new(),
            precedences: vec![0],
            failure: None,
            recovering: false,
            last_error: None,
            recoveries: 0,
            depths: [0; RULE_COUNT],
        }
    }

    /// Parses the whole text and returns the root of the parse tree.
    pub(super) fn run(&mut self) -> Result<NodeId, Stop> {
        let mut pc = self.enter(Rule::Start, 0, Label::None, usize::MAX)?;
        let root = self.nodes.len() - 1;
        while let Some(step) = self.atn.steps.get(pc) {
            pc += 1;
            match step {
                Step::Match(state, tok, label) => {
                    self.state = Some(*state);
                    if let Some(token) = self.match_token(*tok)? {
                        self.label(*label, Part::Token(token));
                    } else {
                        pc = self.fail()?;
                    }
                }
                Step::MatchSet(state, mask, label) => {
                    self.state = Some(*state);
                    let next = self.tokens.next();
                    let token = if next > 0 && mask >> next & 1 == 1 {
                        let token = self.tokens.token(self.tokens.index()).clone();
                        self.report_match();
                        self.tokens.consume()?;
                        Some(token)
                    } else {
                        // The generated code ignores the error here; it surfaces in the next rule.
                        self.recover_inline()?
                    };
                    if let Some(token) = token {
                        self.label(*label, Part::Token(token));
                    }
                }
                Step::Call(state, rule, precedence, label) => {
                    self.state = Some(*state);
                    pc = self.enter(*rule, *precedence, *label, pc)?;
                }
                Step::Sync { state, checked } => {
                    self.state = Some(*state);
                    self.sync(*state)?;
                    if *checked && self.failure.is_some() {
                        pc = self.fail()?;
                    }
                }
                Step::Unless(mask, to) => {
                    if !self.next_in(*mask) {
                        pc = *to;
                    }
                }
                Step::If(mask, to) => {
                    if self.next_in(*mask) {
                        pc = *to;
                    }
                }
                Step::Jump(to) => pc = *to,
                Step::Predict(decision, targets) => match self.predict(*decision)? {
                    Ok(alt) => {
                        self.failure = None;
                        pc = targets.get(alt as usize - 1).copied().unwrap_or(pc);
                    }
                    Err(no_viable) => {
                        self.failure = Some(Failure::NoViable(no_viable));
                        pc = self.fail()?;
                    }
                },
                Step::Switch(cases) => match cases.iter().find(|(mask, _)| self.next_in(*mask)) {
                    Some((_, to)) => pc = *to,
                    None => {
                        let at = self.tokens.index();
                        self.failure = Some(Failure::NoViable(NoViable {
                            start: at,
                            offending: at,
                        }));
                        pc = self.fail()?;
                    }
                },
                Step::EnterAlt(kind) => {
                    if let Some(node) = self.node {
                        self.nodes[node].kind = *kind;
                    }
                }
                Step::LeaveOperand => self.exit_event(),
                Step::Recurse(kind, state) => {
                    self.recurse(*kind)?;
                    self.state = Some(*state);
                }
                Step::Return => pc = self.leave(),
            }
        }
        Ok(root)
    }

    fn next_in(&self, mask: u64) -> bool {
        let next = self.tokens.next();
        next > 0 && mask >> next & 1 == 1
    }

    fn label(&mut self, label: Label, part: Part) {
        if let (Some(node), true) = (self.node, label != Label::None) {
            self.nodes[node].parts.push((label, part));
        }
    }

    fn is_recursive(rule: Rule) -> bool {
        matches!(RULES[rule as usize], Body::Recursive { .. })
    }

    fn enter(&mut self, rule: Rule, precedence: i32, label: Label, back_to: usize) -> Result<usize, Stop> {
        let (state, pc) = self.atn.rules[rule as usize];
        let id = self.nodes.len();
        self.nodes.push(Node {
            rule,
            kind: Kind::Plain,
            parent: self.node,
            caller: self.state,
            start: self.tokens.index(),
            children: Vec::new(),
            parts: Vec::new(),
        });
        self.frames.push(Frame {
            rule,
            back_to,
            label,
            parent: self.node,
            caller: self.state,
        });
        if Self::is_recursive(rule) {
            self.precedences.push(precedence);
        } else if let Some(parent) = self.node {
            self.nodes[parent].children.push(id);
        }
        self.state = Some(state);
        self.node = Some(id);
        self.enter_event(rule)?;
        Ok(pc)
    }

    fn enter_event(&mut self, rule: Rule) -> Result<(), Stop> {
        self.depths[rule as usize] += 1;
        if self.depths[rule as usize] > self.options.recursion_limit {
            let limit = self.options.recursion_limit;
            return Err(self
                .tokens
                .reporter
                .fatal(format!("expression recursion limit exceeded: {limit}")));
        }
        Ok(())
    }

    fn exit_event(&mut self) {
        if let Some(frame) = self.frames.last() {
            let depth = &mut self.depths[frame.rule as usize];
            *depth = depth.saturating_sub(1);
        }
    }

    /// Makes the current node the first part of a new one.
    fn recurse(&mut self, kind: Kind) -> Result<(), Stop> {
        let (Some(previous), Some(frame)) = (self.node, self.frames.last()) else {
            return Ok(());
        };
        let rule = frame.rule;
        let id = self.nodes.len();
        self.nodes.push(Node {
            rule,
            kind,
            parent: frame.parent,
            caller: frame.caller,
            start: self.nodes[previous].start,
            children: vec![previous],
            parts: Vec::new(),
        });
        self.node = Some(id);
        self.enter_event(rule)
    }

    /// Ends the current rule and returns where its caller continues.
    fn leave(&mut self) -> usize {
        self.exit_event();
        let Some(frame) = self.frames.pop() else {
            return usize::MAX;
        };
        let result = self.node;
        if Self::is_recursive(frame.rule) {
            self.precedences.pop();
            if let (Some(parent), Some(result)) = (frame.parent, result) {
                self.nodes[parent].children.push(result);
            }
        } else {
            self.state = frame.caller;
        }
        self.node = frame.parent;
        if let Some(result) = result {
            self.label(frame.label, Part::Node(result));
        }
        frame.back_to
    }

    fn predict(&mut self, decision: StateId) -> Result<Result<u8, NoViable>, Stop> {
        let follows = || follows(self.atn, &self.nodes, self.node);
        let situation = Situation {
            decision,
            precedence: self.precedences.last().copied().unwrap_or(0),
            follows: &follows,
        };
        self.predictor.predict(&mut self.tokens, &situation)
    }

    /// Reports the error of the current rule, skips to where its callers can continue, and ends the rule.
    fn fail(&mut self) -> Result<usize, Stop> {
        if let Some(failure) = self.failure.take() {
            self.report(&failure)?;
            self.recover()?;
        }
        Ok(self.leave())
    }

    fn match_token(&mut self, tok: Tok) -> Result<Option<Token>, Stop> {
        if self.tokens.next() == symbol(tok) {
            let token = self.tokens.token(self.tokens.index()).clone();
            self.report_match();
            self.tokens.consume()?;
            return Ok(Some(token));
        }
        let token = self.recover_inline()?;
        Ok(if self.failure.is_some() { None } else { token })
    }

    fn report_match(&mut self) {
        self.recovering = false;
        self.last_error = None;
    }

    fn notify(&mut self, at: TokenId, message: &str) -> Result<(), Stop> {
        let offset = self.tokens.token(at).offset;
        self.tokens.reporter.syntax(offset, message)
    }

    fn report(&mut self, failure: &Failure) -> Result<(), Stop> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        match *failure {
            Failure::NoViable(NoViable { start, offending }) => {
                let input = if self.tokens.symbol(start) == EOF {
                    "<EOF>".to_owned()
                } else {
                    self.tokens.text_between(start, offending)
                };
                self.notify(offending, &format!("no viable alternative at input {}", quote(&input)))
            }
            Failure::Mismatch(token, state, node) => {
                let expected = self.expected_at(state, Some(node)).display();
                let message = format!("mismatched input {} expecting {expected}", self.shown(token));
                self.notify(token, &message)
            }
        }
    }

    fn shown(&self, id: TokenId) -> String {
        quote(&self.tokens.text(self.tokens.token(id)))
    }

    /// The tokens that fit at a state, including those after rules that may end there.
    fn expected_at(&self, state: StateId, node: Option<NodeId>) -> Symbols {
        let mut following = self.atn.next(state);
        let mut expected = following.clone();
        if !following.contains(EPSILON) {
            return expected;
        }
        expected.remove_epsilon();
        let mut next = node;
        while let Some(id) = next
            && let Some(caller) = self.nodes[id].caller
            && following.contains(EPSILON)
        {
            following = self.atn.next(self.atn.follow(caller));
            expected.add_all(following);
            expected.remove_epsilon();
            next = self.nodes[id].parent;
        }
        if following.contains(EPSILON) {
            expected.add(EOF);
        }
        expected
    }

    fn expected(&self) -> Symbols {
        match self.state {
            Some(state) => self.expected_at(state, self.node),
            None => Symbols::default(),
        }
    }

    /// The tokens at which one of the enclosing rules can continue.
    fn recovery_set(&self) -> Symbols {
        let mut set = Symbols::default();
        for follow in follows(self.atn, &self.nodes, self.node) {
            set.add_all(self.atn.next(follow));
        }
        set.remove_epsilon();
        set
    }

    fn count_recovery(&mut self) -> Result<(), Stop> {
        let limit = self.options.recovery_limit;
        if self.recoveries == limit {
            let message = format!("error recovery attempt limit exceeded: {limit}");
            self.notify(self.tokens.index(), &message)?;
            return Err(Stop);
        }
        self.recoveries += 1;
        Ok(())
    }

    fn recover(&mut self) -> Result<(), Stop> {
        self.count_recovery()?;
        let mut skipped = 0;
        let at = self.tokens.index();
        if let (Some((index, states)), Some(state)) = (&self.last_error, self.state)
            && *index == at
            && states.contains(&state)
        {
            // The same position again: skip a token, or the parser would never end.
            self.skip(&mut skipped)?;
        }
        let at = self.tokens.index();
        let (index, states) = self.last_error.get_or_insert((at, Vec::new()));
        *index = at;
        states.extend(self.state);
        let set = self.recovery_set();
        self.skip_until(&set, Some(&mut skipped))
    }

    fn skip(&mut self, skipped: &mut usize) -> Result<(), Stop> {
        let limit = self.options.recovery_lookahead_limit;
        if *skipped >= limit {
            let message = format!("error recovery token lookahead limit exceeded: {limit}");
            return Err(self.tokens.reporter.fatal(message));
        }
        *skipped += 1;
        self.tokens.consume()
    }

    fn skip_until(&mut self, set: &Symbols, mut skipped: Option<&mut usize>) -> Result<(), Stop> {
        while self.tokens.next() != EOF && !set.contains(self.tokens.next()) {
            match &mut skipped {
                Some(skipped) => self.skip(skipped)?,
                None => self.tokens.consume()?,
            }
        }
        Ok(())
    }

    /// Checks whether the next token fits at the start of a block or loop, and recovers if possible.
    fn sync(&mut self, state: StateId) -> Result<(), Stop> {
        if self.recovering {
            return Ok(());
        }
        let next = self.tokens.next();
        let fitting = self.atn.next(state);
        if fitting.contains(EPSILON) || fitting.contains(next) {
            return Ok(());
        }
        match self.atn.state(state).kind {
            StateKind::BlockStart
            | StateKind::StarBlockStart
            | StateKind::PlusBlockStart
            | StateKind::StarLoopEntry => {
                if !self.delete_token()? {
                    self.set_mismatch();
                }
            }
            StateKind::PlusLoopBack | StateKind::StarLoopBack => {
                self.report_unwanted()?;
                let mut set = self.expected();
                set.add_all(&self.recovery_set());
                self.skip_until(&set, None)?;
            }
            StateKind::Basic
            | StateKind::RuleStart
            | StateKind::RuleStop
            | StateKind::BlockEnd
            | StateKind::LoopEnd => {}
        }
        Ok(())
    }

    fn set_mismatch(&mut self) {
        if let (Some(state), Some(node)) = (self.state, self.node) {
            self.failure = Some(Failure::Mismatch(self.tokens.index(), state, node));
        }
    }

    fn report_unwanted(&mut self) -> Result<(), Stop> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let at = self.tokens.index();
        let message = format!(
            "extraneous input {} expecting {}",
            self.shown(at),
            self.expected().display()
        );
        self.notify(at, &message)
    }

    /// Deletes the next token if the one after it fits.
    fn delete_token(&mut self) -> Result<bool, Stop> {
        let second = self.tokens.after(self.tokens.index())?;
        if !self.expected().contains(self.tokens.symbol(second)) {
            return Ok(false);
        }
        self.report_unwanted()?;
        self.tokens.consume()?;
        self.report_match();
        Ok(true)
    }

    /// Recovers from a single token: deletes it, or inserts the missing one before it.
    fn recover_inline(&mut self) -> Result<Option<Token>, Stop> {
        self.count_recovery()?;
        if self.delete_token()? {
            let token = self.tokens.token(self.tokens.index()).clone();
            self.tokens.consume()?;
            return Ok(Some(token));
        }
        let Some(state) = self.state else { return Ok(None) };
        let after = self.atn.state(state).transitions[0].target();
        let follows = follows(self.atn, &self.nodes, self.node);
        if self.atn.next_in(after, &follows).contains(self.tokens.next()) {
            self.report_missing()?;
            return Ok(Some(self.missing()));
        }
        self.set_mismatch();
        Ok(None)
    }

    fn report_missing(&mut self) -> Result<(), Stop> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let at = self.tokens.index();
        let message = format!("missing {} at {}", self.expected().display(), self.shown(at));
        self.notify(at, &message)
    }

    /// The expected token.
    fn missing(&self) -> Token {
        let expected = self.expected().first().unwrap_or(0);
        let text = match expected {
            EOF => "<missing EOF>".to_owned(),
            1..=28 => format!("<missing {}>", token_name(expected)),
            // Only tokens with a fixed spelling have a name here.
            _ => "<missing undefined>".to_owned(),
        };
        self.tokens.make_up(Tok::Ident, text)
    }
}

fn quote(text: &str) -> String {
    let text = text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r");
    format!("'{text}'")
}

/// The states to which the rules around a node return, innermost first.
fn follows(atn: &Atn, nodes: &[Node], node: Option<NodeId>) -> Vec<StateId> {
    let mut follows = Vec::new();
    let mut next = node;
    while let Some(id) = next {
        let node = &nodes[id];
        if let Some(caller) = node.caller {
            follows.push(atn.follow(caller));
        }
        next = node.parent;
    }
    follows
}
