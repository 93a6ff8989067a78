//! The grammar as a network of states, and the program that walks it.
//!
//! Upstream counterpart: the augmented transition network and the parser that ANTLR 4.13 generates from `CEL.g4`. The
//! states, and which of them are merged at the end of a block, determine when two alternatives conflict; the position
//! in the program determines which tokens a message expects. Both are built here from [`grammar`] by ANTLR's own
//! construction rules.

use std::sync::LazyLock;

use super::{
    super::lexer::Tok,
    grammar::{Alt, Body, El, Kind, Label, RULES, Rule},
    symbols::{EOF, EPSILON, Symbols, symbol},
};

/// The number of a state.
pub(super) type StateId = u16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateKind {
    Basic,
    RuleStart,
    RuleStop,
    BlockStart,
    PlusBlockStart,
    StarBlockStart,
    BlockEnd,
    StarLoopEntry,
    StarLoopBack,
    PlusLoopBack,
    LoopEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    /// Without a token. At a rule's end: back to a caller, and the left-recursive rule that this leaves for good.
    Epsilon(StateId, Option<Rule>),
    Token(i16, StateId),
    /// One of the tokens whose bits are set.
    Set(u64, StateId),
    Rule {
        start: StateId,
        follow: StateId,
        rule: Rule,
        precedence: i32,
    },
    Precedence(i32, StateId),
}

impl Transition {
    pub(super) fn target(self) -> StateId {
        match self {
            Self::Epsilon(target, _)
            | Self::Token(_, target)
            | Self::Set(_, target)
            | Self::Precedence(_, target)
            | Self::Rule { start: target, .. } => target,
        }
    }

    pub(super) fn is_epsilon(self) -> bool {
        !matches!(self, Self::Token(..) | Self::Set(..))
    }

    pub(super) fn matches(self, sym: i16) -> bool {
        match self {
            Self::Token(token, _) => token == sym,
            Self::Set(mask, _) => sym > 0 && mask >> sym & 1 == 1,
            _ => false,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) kind: StateKind,
    pub(super) rule: Rule,
    pub(super) transitions: Vec<Transition>,
    /// The end of the block that starts here.
    pub(super) block_end: Option<StateId>,
    /// Whether this is the operator loop of a left-recursive rule.
    pub(super) operator_loop: bool,
}

impl State {
    pub(super) fn epsilon_only(&self) -> bool {
        !self.transitions.is_empty() && self.transitions.iter().all(|t| t.is_epsilon())
    }
}

/// One step of the program.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Match(StateId, Tok, Label),
    MatchSet(StateId, u64, Label),
    Call(StateId, Rule, i32, Label),
    /// Checks that the next token fits; an error is handled here only if `checked`.
    Sync {
        state: StateId,
        checked: bool,
    },
    /// Jumps unless the next token is one of these.
    Unless(u64, usize),
    /// Jumps if the next token is one of these.
    If(u64, usize),
    Jump(usize),
    /// Predicts an alternative and continues with its program.
    Predict(StateId, Vec<usize>),
    /// Chooses an alternative by the next token.
    Switch(Vec<(u64, usize)>),
    EnterAlt(Kind),
    /// An operator was seen: the node so far becomes the first part of a new one.
    LeaveOperand,
    Recurse(Kind, StateId),
    Return,
}

/// The network and the program.
pub(super) struct Atn {
    pub(super) states: Vec<State>,
    pub(super) steps: Vec<Step>,
    /// The start of each rule: state and step.
    pub(super) rules: Vec<(StateId, usize)>,
    /// The end of each rule.
    stops: Vec<StateId>,
    /// Which tokens may come next, within the rule, by state.
    next: Vec<Symbols>,
}

static ATN: LazyLock<Atn> = LazyLock::new(Atn::build);

impl Atn {
    pub(super) fn get() -> &'static Self {
        &ATN
    }

    pub(super) fn state(&self, id: StateId) -> &State {
        &self.states[id as usize]
    }

    pub(super) fn stop(&self, rule: Rule) -> StateId {
        self.stops[rule as usize]
    }

    /// The tokens that may come next; includes the end-of-rule marker if the rule may end.
    pub(super) fn next(&self, id: StateId) -> &Symbols {
        &self.next[id as usize]
    }

    /// The tokens that may come next, given the states to which the enclosing rules return, innermost first.
    pub(super) fn next_in(&self, id: StateId, follows: &[StateId]) -> Symbols {
        let mut out = Symbols::default();
        let mut busy = Vec::new();
        self.look(id, Some(follows), &mut out, &mut busy);
        out
    }

    /// The state that follows a call of a rule.
    pub(super) fn follow(&self, caller: StateId) -> StateId {
        match self.state(caller).transitions[0] {
            Transition::Rule { follow, .. } => follow,
            other => other.target(),
        }
    }

    /// No rule of the grammar is empty, so a called rule never has to be looked through.
    fn look(&self, id: StateId, follows: Option<&[StateId]>, out: &mut Symbols, busy: &mut Vec<(StateId, usize)>) {
        let key = (id, follows.map_or(usize::MAX, <[StateId]>::len));
        if busy.contains(&key) {
            return;
        }
        busy.push(key);
        let state = self.state(id);
        if state.kind == StateKind::RuleStop {
            match follows {
                None => out.add(EPSILON),
                Some([]) => out.add(EOF),
                Some([first, rest @ ..]) => self.look(*first, Some(rest), out, busy),
            }
            return;
        }
        for transition in &state.transitions {
            match *transition {
                Transition::Epsilon(target, _) | Transition::Precedence(_, target) => {
                    self.look(target, follows, out, busy);
                }
                Transition::Rule { start, .. } => self.look(start, follows, out, busy),
                Transition::Token(sym, _) => out.add(sym),
                Transition::Set(mask, _) => (1..64).filter(|sym| mask >> sym & 1 == 1).for_each(|sym| out.add(sym)),
            }
        }
    }

    fn build() -> Self {
        let mut builder = Construction {
            states: Vec::new(),
            steps: Vec::new(),
            rule: Rule::Start,
            fixups: Vec::new(),
        };
        let mut rules = Vec::new();
        let mut stops = Vec::new();
        let rule_order = [
            Rule::Start,
            Rule::Expr,
            Rule::ConditionalOr,
            Rule::ConditionalAnd,
            Rule::Relation,
            Rule::Calc,
            Rule::Unary,
            Rule::Member,
            Rule::Primary,
            Rule::ExprList,
            Rule::ListInit,
            Rule::FieldInitializerList,
            Rule::OptField,
            Rule::MapInitializerList,
            Rule::EscapeIdent,
            Rule::OptExpr,
            Rule::Literal,
        ];
        for rule in rule_order {
            builder.rule = rule;
            rules.push((builder.state(StateKind::RuleStart), 0));
            stops.push(builder.state(StateKind::RuleStop));
        }
        for (i, rule) in rule_order.into_iter().enumerate() {
            builder.rule = rule;
            rules[i].1 = builder.steps.len();
            let (left, right) = builder.body(&RULES[i], &rules);
            builder.epsilon(rules[i].0, left);
            builder.epsilon(right, stops[i]);
            builder.steps.push(Step::Return);
        }
        builder.strip_tails();
        builder.return_edges(&stops);
        let mut atn = Self {
            states: builder.states,
            steps: builder.steps,
            rules,
            stops,
            next: Vec::new(),
        };
        atn.next = (0..atn.states.len())
            .map(|id| {
                let mut out = Symbols::default();
                atn.look(id as StateId, None, &mut out, &mut Vec::new());
                out
            })
            .collect();
        for (step, start) in builder.fixups {
            let mask = atn.mask(start);
            match &mut atn.steps[step] {
                Step::Unless(m, _) | Step::If(m, _) => *m = mask,
                Step::Switch(cases) => {
                    let case = cases.iter().position(|case| case.0 == 0);
                    if let Some(case) = case {
                        cases[case].0 = mask;
                    }
                }
                _ => {}
            }
        }
        atn
    }

    /// The tokens that a state accepts, as bits.
    fn mask(&self, id: StateId) -> u64 {
        (1..64)
            .filter(|sym| self.next(id).contains(*sym))
            .fold(0, |mask, sym| mask | 1 << sym)
    }
}

type Handle = (StateId, StateId);

struct Construction {
    states: Vec<State>,
    steps: Vec<Step>,
    rule: Rule,
    /// Steps whose tokens depend on a state, filled in when the network is complete.
    fixups: Vec<(usize, StateId)>,
}

impl Construction {
    fn state(&mut self, kind: StateKind) -> StateId {
        self.states.push(State {
            kind,
            rule: self.rule,
            transitions: Vec::new(),
            block_end: None,
            operator_loop: false,
        });
        (self.states.len() - 1) as StateId
    }

    fn edge(&mut self, from: StateId, transition: Transition) {
        self.states[from as usize].transitions.push(transition);
    }

    fn epsilon(&mut self, from: StateId, to: StateId) {
        self.edge(from, Transition::Epsilon(to, None));
    }

    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    fn body(&mut self, body: &Body, rules: &[(StateId, usize)]) -> Handle {
        match *body {
            Body::Single(els) => self.sequence(els, rules),
            Body::Choice { ll1, alts } => {
                let start = self.state(StateKind::BlockStart);
                let end = self.state(StateKind::BlockEnd);
                self.push(Step::Sync {
                    state: start,
                    checked: true,
                });
                let choose = self.push(Step::Return);
                let mut targets = Vec::new();
                let mut lefts = Vec::new();
                let mut exits = Vec::new();
                for Alt(kind, els) in alts {
                    targets.push(self.steps.len());
                    self.push(Step::EnterAlt(*kind));
                    let alt = self.sequence(els, rules);
                    lefts.push(alt.0);
                    self.join(start, alt, end);
                    exits.push(self.push(Step::Return));
                }
                let after = self.steps.len();
                for exit in exits {
                    self.steps[exit] = Step::Jump(after);
                }
                self.steps[choose] = if ll1 {
                    for left in &lefts {
                        self.fixups.push((choose, *left));
                    }
                    Step::Switch(targets.into_iter().map(|target| (0, target)).collect())
                } else {
                    Step::Predict(start, targets)
                };
                self.states[start as usize].block_end = Some(end);
                (start, end)
            }
            Body::Recursive { first, operators } => self.recursive(&first, operators, rules),
        }
    }

    fn join(&mut self, start: StateId, alt: Handle, end: StateId) {
        self.epsilon(start, alt.0);
        self.epsilon(alt.1, end);
    }

    fn recursive(&mut self, first: &Alt, operators: &[(i32, Alt)], rules: &[(StateId, usize)]) -> Handle {
        self.push(Step::EnterAlt(first.0));
        let primary = self.sequence(first.1, rules);
        // The states of the loop must exist before the program refers to them.
        let block = self.state(StateKind::StarBlockStart);
        let block_end = self.state(StateKind::BlockEnd);
        let entry = self.state(StateKind::StarLoopEntry);
        let end = self.state(StateKind::LoopEnd);
        let back = self.state(StateKind::StarLoopBack);
        self.states[block as usize].block_end = Some(block_end);
        self.states[entry as usize].operator_loop = true;
        self.push(Step::Sync {
            state: entry,
            checked: true,
        });
        let predict = self.push(Step::Return);
        let body = self.push(Step::LeaveOperand);
        let choose = (operators.len() > 1).then(|| {
            self.push(Step::Sync {
                state: block,
                checked: true,
            });
            self.push(Step::Return)
        });
        let mut targets = Vec::new();
        let mut exits = Vec::new();
        for (precedence, Alt(kind, els)) in operators {
            targets.push(self.steps.len());
            let left = self.state(StateKind::Basic);
            self.push(Step::Recurse(*kind, left));
            let rest = self.sequence(els, rules);
            // The predicate leads directly to the element after it.
            self.edge(left, Transition::Precedence(*precedence, rest.0));
            self.join(block, (left, rest.1), block_end);
            exits.push(self.push(Step::Return));
        }
        let after_operator = self.push(Step::Sync {
            state: back,
            checked: true,
        });
        self.push(Step::Jump(predict));
        for exit in exits {
            self.steps[exit] = Step::Jump(after_operator);
        }
        if let Some(choose) = choose {
            self.steps[choose] = Step::Predict(block, targets);
        }
        self.steps[predict] = Step::Predict(entry, vec![body, self.steps.len()]);
        self.epsilon(entry, block);
        self.epsilon(entry, end);
        self.epsilon(block_end, back);
        self.epsilon(back, entry);
        self.epsilon(primary.1, entry);
        (primary.0, end)
    }

    /// Connects the end of `el` with an element that starts at `next`: directly if `el` is a single edge, else by an
    /// epsilon edge.
    fn connect(&mut self, el: Handle, next: StateId) {
        let (left, right) = el;
        let simple =
            self.states[left as usize].kind == StateKind::Basic && self.states[right as usize].kind == StateKind::Basic;
        if simple && let [transition] = &mut self.states[left as usize].transitions[..] {
            match transition {
                Transition::Rule { follow, .. } if *follow == right => {
                    *follow = next;
                    return;
                }
                Transition::Token(_, target) | Transition::Set(_, target) if *target == right => {
                    *target = next;
                    return;
                }
                _ => {}
            }
        }
        self.epsilon(right, next);
    }

    fn sequence(&mut self, els: &[El], rules: &[(StateId, usize)]) -> Handle {
        let mut handles = Vec::new();
        for el in els {
            handles.push(self.element(el, rules));
        }
        for pair in handles.windows(2) {
            self.connect(pair[0], pair[1].0);
        }
        match (handles.first(), handles.last()) {
            (Some(first), Some(last)) => (first.0, last.1),
            _ => {
                let empty = self.state(StateKind::Basic);
                (empty, empty)
            }
        }
    }

    fn element(&mut self, el: &El, rules: &[(StateId, usize)]) -> Handle {
        match *el {
            El::Tok(tok, label) => {
                let (left, right) = (self.state(StateKind::Basic), self.state(StateKind::Basic));
                self.edge(left, Transition::Token(symbol(tok), right));
                self.push(Step::Match(left, tok, label));
                (left, right)
            }
            El::Set(toks, label) => {
                let (left, right) = (self.state(StateKind::Basic), self.state(StateKind::Basic));
                let mask = toks.iter().fold(0, |mask, tok| mask | 1_u64 << *tok as u8);
                self.edge(left, Transition::Set(mask, right));
                self.push(Step::MatchSet(left, mask, label));
                (left, right)
            }
            El::Rule(rule, precedence, label) => {
                let (left, right) = (self.state(StateKind::Basic), self.state(StateKind::Basic));
                self.edge(
                    left,
                    Transition::Rule {
                        start: rules[rule as usize].0,
                        follow: right,
                        rule,
                        precedence,
                    },
                );
                self.push(Step::Call(left, rule, precedence, label));
                (left, right)
            }
            El::Optional(body) => {
                let start = self.state(StateKind::BlockStart);
                self.push(Step::Sync {
                    state: start,
                    checked: true,
                });
                let test = self.push(Step::Return);
                let alt = self.sequence(body, rules);
                let end = self.state(StateKind::BlockEnd);
                self.join(start, alt, end);
                self.epsilon(start, end);
                self.states[start as usize].block_end = Some(end);
                self.steps[test] = Step::Unless(0, self.steps.len());
                self.fixups.push((test, alt.0));
                (start, end)
            }
            El::Star { ll1, body } => {
                let block = self.state(StateKind::StarBlockStart);
                let block_end = self.state(StateKind::BlockEnd);
                let entry = self.state(StateKind::StarLoopEntry);
                let end = self.state(StateKind::LoopEnd);
                let back = self.state(StateKind::StarLoopBack);
                self.states[block as usize].block_end = Some(block_end);
                self.push(Step::Sync {
                    state: entry,
                    checked: true,
                });
                let test = self.push(Step::Return);
                let alt = self.sequence(body, rules);
                self.push(Step::Sync {
                    state: back,
                    checked: true,
                });
                self.push(Step::Jump(test));
                self.steps[test] = if ll1 {
                    self.fixups.push((test, alt.0));
                    Step::Unless(0, self.steps.len())
                } else {
                    Step::Predict(entry, vec![test + 1, self.steps.len()])
                };
                self.join(block, alt, block_end);
                self.epsilon(entry, block);
                self.epsilon(entry, end);
                self.epsilon(block_end, back);
                self.epsilon(back, entry);
                (entry, end)
            }
            El::Plus { ll1, body } => {
                let block = self.state(StateKind::PlusBlockStart);
                let block_end = self.state(StateKind::BlockEnd);
                let back = self.state(StateKind::PlusLoopBack);
                let end = self.state(StateKind::LoopEnd);
                self.states[block as usize].block_end = Some(block_end);
                self.push(Step::Sync {
                    state: block,
                    checked: true,
                });
                let again = self.steps.len();
                let alt = self.sequence(body, rules);
                self.push(Step::Sync {
                    state: back,
                    checked: ll1,
                });
                if ll1 {
                    let test = self.push(Step::If(0, again));
                    self.fixups.push((test, alt.0));
                } else {
                    let after = self.steps.len() + 1;
                    self.push(Step::Predict(back, vec![again, after]));
                }
                self.join(block, alt, block_end);
                self.epsilon(block_end, back);
                self.epsilon(back, block);
                self.epsilon(back, end);
                (block, end)
            }
        }
    }

    /// Removes the state between the last edge of an alternative and the end of its block.
    fn strip_tails(&mut self) {
        for id in 0..self.states.len() {
            let [transition] = self.states[id].transitions[..] else {
                continue;
            };
            if self.states[id].kind != StateKind::Basic {
                continue;
            }
            let tail = match transition {
                Transition::Rule { follow, .. } => follow,
                other => other.target(),
            };
            let tail = &self.states[tail as usize];
            let (StateKind::Basic, [Transition::Epsilon(after, _)]) = (tail.kind, &tail.transitions[..]) else {
                continue;
            };
            let after = *after;
            let ends = matches!(
                self.states[after as usize].kind,
                StateKind::BlockEnd | StateKind::PlusLoopBack | StateKind::StarLoopBack
            );
            if !ends {
                continue;
            }
            match &mut self.states[id].transitions[0] {
                Transition::Rule { follow, .. } => *follow = after,
                Transition::Epsilon(target, _)
                | Transition::Token(_, target)
                | Transition::Set(_, target)
                | Transition::Precedence(_, target) => *target = after,
            }
        }
    }

    /// From the end of each rule back to all its callers.
    fn return_edges(&mut self, stops: &[StateId]) {
        let recursive = |rule: Rule| matches!(RULES[rule as usize], Body::Recursive { .. });
        let mut edges = Vec::new();
        for state in &self.states {
            for transition in &state.transitions {
                if let Transition::Rule {
                    follow,
                    rule,
                    precedence,
                    ..
                } = *transition
                {
                    let leaves = (recursive(rule) && precedence == 0).then_some(rule);
                    edges.push((stops[rule as usize], Transition::Epsilon(follow, leaves)));
                }
            }
        }
        for (stop, edge) in edges {
            self.edge(stop, edge);
        }
    }
}
