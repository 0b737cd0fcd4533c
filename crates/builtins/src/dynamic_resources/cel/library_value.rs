//! Values of Kubernetes' and CEL's libraries that the interpreter does not have, such as quantities and addresses.

/// Makes a type a value of CEL, with the static that is its type in CEL. The type must be `Clone` and `PartialEq`.
/// Braces may follow, with the functions of `Val` for its operators.
macro_rules! library_value {
    ($value:ty: $cel_type:ident $({ $($operators:tt)* })?) => {
        impl cel::common::value::Val for $value {
            fn get_type(&self) -> &cel::common::types::Type {
                &$cel_type
            }

            fn cel_type() -> &'static cel::common::types::Type {
                &$cel_type
            }

            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other.downcast_ref::<Self>().is_some_and(|other| self == other)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v> {
                Box::new(Self::clone(self))
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }

            $($($operators)*)?
        }

        impl cel::common::value::StaticVal for $value {}
    };
}

pub(super) use library_value;
