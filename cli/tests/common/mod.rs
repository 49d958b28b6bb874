//! Provides a temporary folder with a file `k.ptx`, which contains kernels. Tests run the program
//! in this folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) const SAXPY: &str = "\
.version 7.0
.target sm_52
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %d<4>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [n];
    setp.ge.u32 %p, %r3, %r4;
    @%p ret;
    ld.param.f32 %f0, [a]; ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y];
    mul.wide.u32 %d2, %r3, 4;
    add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
    ld.global.f32 %f1, [%d0]; ld.global.f32 %f2, [%d1];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%d1], %f3;
    ret;
}
.visible .entry endless() { L: bra L; }
.visible .entry wild(.param .u64 p)
{
    .reg .b64 %d; .reg .b32 %r;
    ld.param.u64 %d, [p]; ld.global.u32 %r, [%d]; st.global.u32 [%d], %r; ret;
}
";

/// The folder of one test, which is removed when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("k.ptx"), SAXPY).unwrap();
        Folder(path)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        // The library can be an empty file, because the started program does not load it.
        std::fs::write(self.0.join("libcuda.so"), "").unwrap();
        command
            .args(args)
            .current_dir(&self.0)
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("MARGAY_LIBCUDA", self.0.join("libcuda.so"))
            .env("MARGAY_WORKERS", "2");
        command
    }

    pub(crate) fn margay(&self, args: &str) -> Output {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.command(&args).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) const ARGS: &str =
    "launch k.ptx -k saxpy --grid 2 --block 4 -a u32:5 -a f32:2 -a iota:f32:6";

/// Starts `margay` in a shell with the limits that `ulimit` names.
pub(crate) fn limited(folder: &Folder, ulimit: &str, args: &str) -> Output {
    let margay = env!("CARGO_BIN_EXE_margay");
    let line = format!("ulimit {ulimit} && exec {margay} {args}");
    let mut command = Command::new("sh");
    let command = command.args(["-c", &line]).current_dir(&folder.0);
    command.output().unwrap()
}
