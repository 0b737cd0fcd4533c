//! A compile-time check. A plugin lists every trait that it implements in `plugin!`. A trait that is missing in the
//! list would never be called, so a missing trait is a compiler error.

use std::marker::PhantomData;

use crate::{
    hooks::{EndCycle, Follow, Hosted, Reuse, ShareFacts, State},
    points::{
        Bind, Explain, Filter, Normalize, Permit, PostBind, PostFilter, PreBind, PreBindPreFlight, PreEnqueue,
        PreFilter, PreScore, QueueSort, QueueingHint, Reserve, Score, Sign,
    },
};

/// A type with a constant for each trait. The constant has the trait's name and says whether `P` implements the trait.
/// If so, the compiler finds the type's own constant, otherwise the constant of [`Otherwise`].
#[derive(Debug)]
pub struct Implements<P>(PhantomData<P>);

/// Passes the names of all points and hooks to another macro, after the given arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! with_every_trait {
    ($callback:path, $($arguments:tt)*) => {
        $callback! {
            $($arguments)*
            PreEnqueue QueueSort PreFilter Filter PostFilter PreScore Score Normalize Reserve Permit PreBindPreFlight PreBind Bind
            PostBind QueueingHint Sign Explain EndCycle Follow State Hosted Reuse ShareFacts
        }
    };
}

macro_rules! traits {
    ($($name:ident)*) => {
        /// The constants of a type that does not implement the traits.
        #[expect(non_upper_case_globals, reason = "they have the names of traits")]
        pub trait Otherwise {
            $(
                #[doc = concat!("Whether the type implements [`trait@", stringify!($name), "`].")]
                const $name: bool = false;
            )*
        }

        impl<P> Otherwise for Implements<P> {}

        $(
            #[expect(non_upper_case_globals, reason = "it has the name of a trait")]
            impl<P: $name> Implements<P> {
                #[doc = concat!("The type implements [`trait@", stringify!($name), "`].")]
                pub const $name: bool = true;
            }
        )*

        #[cfg(test)]
        const TRAITS: &[&str] = &[$(stringify!($name)),*];
    };
}

with_every_trait!(traits,);

/// Whether a trait is in the list. A `const fn` cannot compare strings with `==`.
#[must_use]
pub const fn is_listed(name: &str, list: &[&str]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if is_same(name.as_bytes(), list[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Fails to compile if a plugin implements a trait that is not in the list.
#[doc(hidden)]
#[macro_export]
macro_rules! all_listed {
    ($plugin:ident $list:tt) => {
        $crate::with_every_trait!($crate::all_listed, @traits $plugin $list);
    };
    (@traits $plugin:ident $list:tt $($name:ident)*) => {
        const _: () = {
            #[allow(unused_imports, reason = "a plugin may have every trait")]
            use $crate::implemented::Otherwise as _;
            $($crate::all_listed!(@trait $plugin $list $name);)*
        };
    };
    (@trait $plugin:ident [$($listed:ident)*] $name:ident) => {
        assert!(
            !$crate::implemented::Implements::<$plugin>::$name
                || $crate::implemented::is_listed(stringify!($name), &[$(stringify!($listed)),*]),
            concat!(stringify!($plugin), " implements ", stringify!($name), ", which its `plugin!` line does not list")
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hook, Point};

    #[test]
    fn no_point_and_no_hook_is_left_out() {
        let points = Point::ALL.iter().map(|point| format!("{point:?}"));
        let names: Vec<String> = points.chain(Hook::ALL.iter().map(|hook| format!("{hook:?}"))).collect();
        let mut traits: Vec<&str> = TRAITS.to_vec();
        traits.sort_unstable_by_key(|name| names.iter().position(|it| it == name));
        assert_eq!(traits, names);
    }

    struct Looks;

    impl State for Looks {
        fn snapshot(&mut self) -> Vec<u8> {
            Vec::new()
        }

        fn restore(&mut self, _snapshot: &[u8]) -> Result<(), crate::RestoreError> {
            Ok(())
        }
    }

    #[test]
    fn what_a_type_implements_is_known() {
        assert_eq!([Implements::<Looks>::State, Implements::<Looks>::Follow], [true, false]);
        let lists = [["Bind", "PreBind"], ["Bind", "PreBindPreFlight"]];
        assert_eq!(lists.map(|list| is_listed("PreBind", &list)), [true, false]);
    }
}
