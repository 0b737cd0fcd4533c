//! The type of a part of an expression, as it is known before the expression runs.

use std::rc::Rc;

/// The longest text of a type, in bytes. A type may contain another one many times, so its whole text may be far longer
/// than the expression.
const MAX_TEXT: usize = 1_024;

/// The structures: the types whose fields are declared.
const STRUCTURES: [&str; 5] =
    [DEVICE, "kubernetes.NamedFormat", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"];
/// The type of the variable `device`.
const DEVICE: &str = "kubernetes.DRADevice";
/// The types that only functions know, besides [`OPTIONAL`].
const OPAQUE: [&str; 2] = ["net.CIDR", "net.IP"];
const OPTIONAL: &str = "optional_type";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StaticType {
    /// A type that is only known when the expression runs.
    Dyn,
    /// The type of attributes that cannot be lists. It is as [`StaticType::Dyn`], but no loop can run over it.
    Any,
    /// The type of a part with a mistake. It suits every use, so that one mistake is reported once.
    Mistake,
    /// The type of an empty list's elements, or of a parameter: a variable of [`super::bindings::Bindings`].
    Variable(usize),
    /// A type such as `int` or `net.IP`, with its parameters, as in `map(string, int)`.
    Named(&'static str, Rc<[StaticType]>),
}

/// The names in the text of a type. cel-go writes a type in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// The names in messages about a part of the expression, such as `timestamp`.
    OfMistakes,
    /// The names in messages about the type of the whole expression, such as `google.protobuf.Timestamp`.
    Declared,
}

impl StaticType {
    pub(super) fn named(name: &'static str) -> Self {
        Self::of(name, Vec::new())
    }

    /// A type with parameters, such as `list` with the type of the elements.
    pub(super) fn of(name: &'static str, parameters: Vec<Self>) -> Self {
        Self::Named(name, parameters.into())
    }

    pub(super) fn optional(value: Self) -> Self {
        Self::of(OPTIONAL, vec![value])
    }

    pub(super) fn device() -> Self {
        Self::named(DEVICE)
    }

    pub(super) fn is_device(&self) -> bool {
        matches!(self, Self::Named(DEVICE, _))
    }

    pub(super) fn is_structure(&self) -> bool {
        matches!(self, Self::Named(name, _) if STRUCTURES.contains(name))
    }

    pub(super) fn is_named(&self, wanted: &str) -> bool {
        matches!(self, Self::Named(name, _) if *name == wanted)
    }

    /// Whether `null` is a value of the type.
    pub(super) fn has_null(&self) -> bool {
        match self {
            Self::Dyn | Self::Any | Self::Mistake => true,
            Self::Variable(_) => false,
            Self::Named(name, _) => {
                matches!(*name, "null" | "duration" | "timestamp" | OPTIONAL)
                    || OPAQUE.contains(name)
                    || STRUCTURES.contains(name)
            }
        }
    }

    /// The parameters of the type with this name, if it is the type's name.
    pub(super) fn parameters_of(&self, wanted: &str) -> Option<&[Self]> {
        match self {
            Self::Named(name, parameters) if *name == wanted => Some(parameters.as_ref()),
            Self::Dyn | Self::Any | Self::Mistake | Self::Variable(_) | Self::Named(..) => None,
        }
    }

    /// The type in an optional value, and whether the type is an optional type.
    pub(super) fn unwrapped(&self) -> (Self, bool) {
        match self.parameters_of(OPTIONAL).and_then(<[Self]>::first) {
            Some(value) => (value.clone(), true),
            None => (self.clone(), false),
        }
    }

    /// The text of the type in a mistake, at most about a kilobyte.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Names::OfMistakes);
        text
    }

    /// The text of the type of a whole expression, at most about a kilobyte.
    pub(super) fn declared_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Names::Declared);
        text
    }

    fn write(&self, text: &mut String, names: Names) {
        if text.len() > MAX_TEXT {
            return;
        }
        match self {
            Self::Dyn => text.push_str("dyn"),
            Self::Any => text.push_str(if names == Names::Declared { "google.protobuf.Any" } else { "any" }),
            Self::Mistake => text.push_str("!error!"),
            Self::Variable(id) => text.push_str(&format!("_var{id}")),
            Self::Named(name, parameters) => {
                let shown: &str = if names == Names::Declared { declared_name(name) } else { name };
                text.push_str(shown);
                let mut separator = "(";
                for parameter in parameters.iter() {
                    text.push_str(separator);
                    parameter.write(text, names);
                    separator = ", ";
                }
                if !parameters.is_empty() {
                    text.push(')');
                }
            }
        }
    }
}

fn declared_name(name: &str) -> &str {
    match name {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        "null" => "null_type",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_two_texts() {
        let of_time = StaticType::of("map", vec![StaticType::named("timestamp"), StaticType::Any]);
        assert_eq!(of_time.text(), "map(timestamp, any)");
        assert_eq!(of_time.declared_text(), "map(google.protobuf.Timestamp, google.protobuf.Any)");
        assert_eq!(StaticType::optional(StaticType::Dyn).text(), "optional_type(dyn)");
    }

    #[test]
    fn the_text_of_a_huge_type_is_cut() {
        let twice = |of: StaticType| StaticType::of("map", vec![of.clone(), of]);
        let huge = (0..60).fold(StaticType::named("int"), |of, _| twice(of));
        assert!(huge.text().len() < 2 * MAX_TEXT, "{}", huge.text().len());
    }
}
