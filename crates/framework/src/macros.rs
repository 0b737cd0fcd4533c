//! The macro with which a plugin lists its traits once. The macro writes the accessors for them.

/// Makes a plugin of a type that implements [`Configure`](crate::Configure). The arguments are the extension points
/// that the type implements and, after a semicolon, its hooks.
///
/// ```text
/// plugin!(VolumeBinding: PreFilter, Filter, PreScore, Score, Reserve, PreBind, Sign; Follow, EndCycle);
/// ```
///
/// The macro implements [`Plugin`](crate::Plugin) and [`PluginType`](crate::PluginType). It also defines a macro that
/// has the name of the type. The SDK's `export!` gets the list from this macro. If the type implements a trait of an
/// extension point or hook that the list lacks, the code does not compile, because the trait would never be called.
///
/// ```compile_fail
/// # use berth_framework::{Call, Configure, ConfigureError, CycleId, EndCycle, Manifest, PostBind, plugin};
/// # use berth_model::NodeIdx;
/// # struct Counter;
/// # impl Configure for Counter {
/// #     fn describe() -> Manifest { Manifest::default() }
/// #     fn configure(_: &str) -> Result<Self, ConfigureError> { Ok(Self) }
/// # }
/// # impl PostBind for Counter { fn post_bind(&mut self, _: &Call<'_>, _: NodeIdx) {} }
/// impl EndCycle for Counter {
///     fn end_cycle(&mut self, cycle: CycleId) {}
/// }
/// plugin!(Counter: PostBind); // Counter implements EndCycle, which its `plugin!` line does not list
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! plugin {
    ($plugin:ident: $($point:ident),* $(; $($hook:ident),+)? $(,)?) => {
        impl $crate::Plugin for $plugin {
            fn manifest(&self) -> &$crate::Manifest {
                static MANIFEST: ::std::sync::LazyLock<$crate::Manifest> =
                    ::std::sync::LazyLock::new(<$plugin as $crate::Configure>::describe);
                &MANIFEST
            }

            fn version(&self) -> $crate::PluginVersion {
                $crate::PluginVersion::native($crate::Plugin::manifest(self))
            }

            $crate::points!($($point),*);
            $crate::hooks!($($($hook),+)?);
        }

        impl $crate::PluginType for $plugin {
            const POINTS: $crate::Points = $crate::Points::of(&[$($crate::Point::$point),*]);
        }

        $crate::all_listed!($plugin [$($point)* $($($hook)+)?]);

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $plugin {
            ($export:path, $plugin_type:tt, $options:tt) => {
                $export! { $plugin_type $options [$($point)* $($($hook)+)?] }
            };
        }
    };
}

/// The methods `points` and `at` of [`Plugin`](crate::Plugin), for a type that implements just these traits.
#[macro_export]
macro_rules! points {
    ($($point:ident),* $(,)?) => {
        fn points(&self) -> $crate::Points {
            const { $crate::Points::of(&[$($crate::Point::$point),*]) }
        }

        fn at(&mut self, point: $crate::Point) -> ::std::option::Option<$crate::PointRef<'_>> {
            let _ = point;
            $(
                if point == $crate::Point::$point {
                    return ::std::option::Option::Some($crate::PointRef::$point(self));
                }
            )*
            ::std::option::Option::None
        }
    };
}

/// The method `hook` of [`Plugin`](crate::Plugin), for a type that implements just these traits.
#[macro_export]
macro_rules! hooks {
    ($($hook:ident),* $(,)?) => {
        fn hook(&mut self, hook: $crate::Hook) -> ::std::option::Option<$crate::HookRef<'_>> {
            let _ = hook;
            $(
                if hook == $crate::Hook::$hook {
                    return ::std::option::Option::Some($crate::HookRef::$hook(self));
                }
            )*
            ::std::option::Option::None
        }
    };
}
