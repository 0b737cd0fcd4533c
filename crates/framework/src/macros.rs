//! What a plugin writes instead of accessors: the list of its traits, once.

/// Makes a plugin of a type that implements [`Configure`](crate::Configure): the extension points that it implements,
/// and after a semicolon its hooks.
///
/// ```text
/// plugin!(VolumeBinding: PreFilter, Filter, PreScore, Score, Reserve, PreBind, Sign; Follow, EndCycle);
/// ```
///
/// This implements [`Plugin`](crate::Plugin) and [`PluginType`](crate::PluginType). It also leaves a macro with the name
/// of the type that hands the list on, so that the SDK's `export!` need not be told it again.
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
