//! Label selectors as they stand in a query: `app=a,tier notin (x,y),!old`.
//!
//! The parser reports the same complaints as the API server, since people meet them on the command line.

use serde_json::Value;

use crate::names;

/// A parsed selector; all requirements must hold.
#[derive(Debug, Default, Clone)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
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
}

impl LabelSelector {
    /// Reads a selector; the error is the API server's message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text), position: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement =
                        parser.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                    requirements.push(requirement);
                    match parser.next() {
                        Token::End => break,
                        Token::Symbol(",") => match parser.peek() {
                            Token::Word(_) | Token::Symbol("!") => {}
                            other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                        },
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
                    }
                }
                Token::End => break,
                Token::Symbol(symbol) => {
                    return Err(format!("found '{symbol}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
        Ok(Self(requirements))
    }

    /// Whether everything matches.
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

impl Test {
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

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.position += 1;
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if let Some(why) = names::qualified_name_errors(&key).into_iter().next() {
            return Err(format!("<nil>: Invalid value: \"{key}\": {why}"));
        }
        if negated {
            return Ok(Requirement { key, test: Test::Missing });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let operator = self.next();
        let test = match operator.text() {
            "=" | "==" => Test::In(vec![self.exact_value()]),
            "!=" => Test::NotIn(vec![self.exact_value()]),
            "in" => Test::In(self.values()?),
            "notin" => Test::NotIn(self.values()?),
            ">" => Test::Above(self.bound(&key)?),
            "<" => Test::Below(self.bound(&key)?),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
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

    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let text = self.exact_value();
        text.parse().map_err(|_| {
            format!(
                "values[0][{key}]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.exact_value());
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
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
