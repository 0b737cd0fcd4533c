//! Label selectors in the form of a query: `app=a,tier notin (x,y),!old`.
//!
//! The parser reports errors in the words of the API server, because users of `kubectl` read these errors.

use serde_json::Value;

use crate::fields::names;

/// A parsed selector. All requirements must hold.
#[derive(Debug, Default, Clone)]
pub(crate) struct LabelSelector(Vec<Requirement>);

/// The reason why a label selector is refused, in the API server's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabelSelectorError {
    /// A token is in the wrong place.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The token.
        found: String,
        /// The tokens that are allowed in this place.
        expected: &'static str,
    },
    /// No list of values follows `in` or `notin`.
    #[error("found '{found}' expected: '('")]
    NoList {
        /// The token that follows instead.
        found: String,
    },
    /// The key is not a label key.
    #[error("<nil>: Invalid value: \"{key}\": {why}")]
    InvalidKey {
        /// The key.
        key: String,
        /// The rule that the key violates.
        why: String,
    },
    /// The value of `<` or `>` is not an integer.
    #[error("values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer")]
    NotAnInteger {
        /// The key of the requirement.
        key: String,
        /// The value.
        value: String,
    },
    /// One requirement of the selector is wrong.
    #[error("unable to parse requirement: {0}")]
    Requirement(Box<LabelSelectorError>),
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    test: LabelTest,
}

#[derive(Debug, Clone)]
enum LabelTest {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }

    /// The error for a token in a place where `expected` is required.
    fn unexpected(&self, expected: &'static str) -> LabelSelectorError {
        LabelSelectorError::Unexpected { found: self.text().to_owned(), expected }
    }
}

impl LabelSelector {
    /// Reads a selector.
    pub(crate) fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        let mut parser = Parser { tokens: tokens(text), position: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement = parser.requirement();
                    requirements.push(requirement.map_err(|error| LabelSelectorError::Requirement(Box::new(error)))?);
                    match parser.next() {
                        Token::End => break,
                        Token::Symbol(",") => match parser.peek() {
                            Token::Word(_) | Token::Symbol("!") => {}
                            other => return Err(other.unexpected("identifier after ','")),
                        },
                        other => return Err(other.unexpected("',' or 'end of string'")),
                    }
                }
                Token::End => break,
                symbol @ Token::Symbol(_) => return Err(symbol.unexpected("!, identifier, or 'end of string'")),
            }
        }
        Ok(Self(requirements))
    }

    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object's labels satisfy all requirements.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.0.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            requirement.test.holds(value)
        })
    }
}

impl LabelTest {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|wanted| wanted != value)),
            Self::Above(bound) => number(value).is_some_and(|value| value > *bound),
            Self::Below(bound) => number(value).is_some_and(|value| value < *bound),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.position).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.position += 1;
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(other.unexpected("identifier")),
        };
        if let Some(why) = names::qualified_name_errors(&key).into_iter().next() {
            return Err(LabelSelectorError::InvalidKey { key, why });
        }
        if negated {
            return Ok(Requirement { key, test: LabelTest::Missing });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, test: LabelTest::Exists });
        }
        let operator = self.next();
        let test = match operator.text() {
            "=" | "==" => LabelTest::In(vec![self.exact_value()]),
            "!=" => LabelTest::NotIn(vec![self.exact_value()]),
            "in" => LabelTest::In(self.values()?),
            "notin" => LabelTest::NotIn(self.values()?),
            ">" => LabelTest::Above(self.bound(&key)?),
            "<" => LabelTest::Below(self.bound(&key)?),
            _ => return Err(operator.unexpected("in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, test })
    }

    fn exact_value(&mut self) -> String {
        match self.peek() {
            Token::Word(word) => {
                self.position += 1;
                word
            }
            Token::Symbol(_) | Token::End => String::new(),
        }
    }

    fn bound(&mut self, key: &str) -> Result<i64, LabelSelectorError> {
        let text = self.exact_value();
        text.parse().map_err(|_| LabelSelectorError::NotAnInteger { key: key.to_owned(), value: text })
    }

    fn values(&mut self) -> Result<Vec<String>, LabelSelectorError> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(LabelSelectorError::NoList { found: other.text().to_owned() }),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.exact_value());
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(other.unexpected("',' or ')'")),
            }
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|&symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = rest.get(symbol.len()..).unwrap_or_default();
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!,()><".contains(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    tokens
}
