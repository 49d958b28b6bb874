//! Functions that the CUDA runtime gives to device code: what `call` of these names becomes.

use crate::types::Type;

macro_rules! syscalls {
    ($($(#[$doc:meta])* $name:ident $text:literal ($($param:ident),*) -> ($($result:ident),*);)*) => {
        /// A function that the system provides to device code.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Syscall { $($(#[$doc])* $name,)* }

        impl Syscall {
            /// All of them, in payload order.
            pub const ALL: &'static [Syscall] = &[$(Syscall::$name,)*];

            /// The name that device code calls.
            pub const fn name(self) -> &'static str {
                match self { $(Syscall::$name => $text,)* }
            }

            /// Types of the arguments.
            pub const fn params(self) -> &'static [Type] {
                match self { $(Syscall::$name => &[$(Type::$param,)*],)* }
            }

            /// Types of the results.
            pub const fn results(self) -> &'static [Type] {
                match self { $(Syscall::$name => &[$(Type::$result,)*],)* }
            }

            /// The system function of that name.
            pub fn from_name(name: &str) -> Option<Syscall> {
                match name { $($text => Some(Syscall::$name),)* _ => None }
            }
        }
    };
}

syscalls! {
    /// `int vprintf(const char *format, void *arguments)`: characters written or negative.
    Vprintf "vprintf" (B64, B64) -> (B32);
    /// `void *malloc(size_t)`: null when the heap is full.
    Malloc "malloc" (B64) -> (B64);
    /// `void free(void *)`.
    Free "free" (B64) -> ();
    /// `void __assertfail(message, file, line, function, size of a character)`: ends the launch.
    Assertfail "__assertfail" (B64, B64, B32, B64, B64) -> ();
}

impl Syscall {
    /// The system function of that payload.
    pub fn from_payload(payload: u64) -> Option<Syscall> {
        Syscall::ALL.get(usize::try_from(payload).ok()?).copied()
    }
}
