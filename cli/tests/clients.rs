//! Tests the libraries, tools and variables that `margay run` provides for clients that compile kernels.

#[path = "clients/cublas.rs"]
mod cublas;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const GOOD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
const BAD: &str =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n add.u77 %r1;\n}\n";

/// The folder of one test, which is removed when the test ends. `shell` runs a shell in the folder under `margay run`.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        // The library can be an empty file, because the started program does not load it.
        std::fs::write(path.join("libcuda.so"), "").unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Runs `script` with a shell that is started by `margay run` with the options `more`.
    fn shell(&self, more: &[&str], script: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command
            .arg("run")
            .args(more)
            .args(["--", "sh", "-c", script])
            .current_dir(&self.0)
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("XDG_CACHE_HOME", self.0.join("cache"))
            .env("MARGAY_LIBCUDA", self.0.join("libcuda.so"))
            .env("CUDA_HOME", self.0.join("cuda"));
        for variable in [
            "CUPY_CACHE_DIR",
            "TRITON_CACHE_DIR",
            "TRITON_ALWAYS_COMPILE",
            "LD_AUDIT",
            "NVCC",
            "PYTHONPATH",
        ] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn ptxas_keeps_ptx_and_tells_errors_with_their_lines() {
    let folder = Folder::new("ptxas");
    folder.file("good.ptx", GOOD);
    folder.file("bad.ptx", BAD);
    let good = folder.shell(
        &[],
        "$TRITON_PTXAS_PATH -v --gpu-name=sm_86 good.ptx -o good.cubin",
    );
    assert!(good.status.success(), "{}", err(&good));
    assert!(
        err(&good).contains("Compiling entry function 'k'"),
        "{}",
        err(&good)
    );
    let written = std::fs::read(folder.0.join("good.cubin")).unwrap();
    assert_eq!(written, [GOOD.as_bytes(), b"\0"].concat());
    let bad = folder.shell(&[], "ptxas bad.ptx -o bad.cubin");
    assert_eq!(bad.status.code(), Some(255));
    assert!(
        err(&bad).contains("ptxas bad.ptx, line 5; error   : "),
        "{}",
        err(&bad)
    );
    assert!(err(&bad).contains("ptxas fatal   : Ptx assembly aborted due to errors"));
    assert!(!folder.0.join("bad.cubin").exists());
    let version = out(&folder.shell(&[], "ptxas --version"));
    assert!(version.contains("release 13.5, V13.5.0"), "{version}");
    let none = folder.shell(&[], "ptxas nothing.ptx");
    assert_eq!(none.status.code(), Some(255));
    assert!(err(&none).contains("cannot open input file 'nothing.ptx'"));
}

#[test]
fn nvcc_is_the_toolkits_own_and_makes_ptx() {
    let folder = Folder::new("nvcc");
    folder.file("cuda/bin/nvcc", "#!/bin/sh\necho \"$0 $@\"\n");
    folder.file("cuda/bin/nvlink", "");
    folder.file("cuda/include/cuda.h", "// a header\n");
    let shown = out(&folder.shell(
        &[],
        "nvcc --cubin -arch sm_86 a.cu; $CUDA_HOME/bin/nvcc --version",
    ));
    let real = folder.0.join("cuda/bin/nvcc");
    let expected = format!(
        "{0} -ptx -arch sm_86 a.cu -o a.cubin\n{0} --version\n",
        real.display()
    );
    assert_eq!(shown, expected);
    let two = out(&folder.shell(&[], "$NVCC -cubin -O3 a.cu b.cpp"));
    let expected = format!(
        "{0} -ptx -O3 a.cu -o a.cubin\n{0} -ptx -O3 b.cpp -o b.cubin\n",
        real.display()
    );
    assert_eq!(two, expected);
    folder.file("cuda/bin/nvcc", "#!/bin/sh\nexit 3\n");
    let failed = folder.shell(&[], "nvcc -cubin a.cu b.cu");
    assert_eq!(failed.status.code(), Some(3));
    folder.file("cuda/bin/nvcc", "#!/bin/sh\necho \"$0 $@\"\n");
    let users = format!(
        "NVCC=mine {} run -- sh -c 'echo $NVCC'",
        env!("CARGO_BIN_EXE_margay")
    );
    assert!(out(&folder.shell(&["--plain"], &users)).ends_with("mine\n"));
    // Some clients resolve links before they start a tool.
    let followed = "$(readlink -f $CUDA_HOME/bin/nvcc) --version; $(readlink -f $(command -v ptxas)) --version";
    let shown = out(&folder.shell(&[], followed));
    assert!(
        shown.starts_with(&format!("{} --version\n", real.display())),
        "{shown}"
    );
    assert!(shown.contains("release 13.5, V13.5.0"), "{shown}");
    let rest = out(&folder.shell(&[], "cat $CUDA_HOME/include/cuda.h; ls $CUDA_HOME/bin"));
    assert_eq!(rest, "// a header\nnvcc\nnvlink\n");
}

/// Checks that `margay run` reserves static TLS for preloaded allocators. If there is an auditing library, the dynamic
/// linker does not reserve enough by default.
#[test]
fn room_for_thread_local_variables() {
    let folder = Folder::new("tunables");
    folder.file("libmargay_audit.so", "");
    let ours = "glibc.rtld.optional_static_tls=32768";
    // If the preloaded file is not a library, the dynamic linker only prints a message.
    let script = "echo $GLIBC_TUNABLES";
    let shown = out(&folder.shell(&[], script));
    assert_eq!(shown, format!("{ours}\n"));
    let with = |set: &str| {
        let margay = env!("CARGO_BIN_EXE_margay");
        let script = format!("GLIBC_TUNABLES={set} {margay} run -- sh -c '{script}'");
        out(&folder.shell(&["--plain"], &script))
    };
    let other = "glibc.malloc.arena_max=1";
    assert_eq!(with(other), format!("{ours}:{other}\n"));
    let own = "glibc.rtld.optional_static_tls=4096";
    assert_eq!(with(own), format!("{own}\n"));
}

#[test]
fn caches_are_our_own_where_the_user_has_none() {
    let folder = Folder::new("caches");
    let script =
        "echo $CUPY_CACHE_DIR $CUPY_COMPILE_WITH_PTX $TRITON_CACHE_DIR $TRITON_ALWAYS_COMPILE";
    let cache = folder.0.join("cache/margay");
    let shown = out(&folder.shell(&[], script));
    assert_eq!(shown, format!("{0}/cupy 1 {0}/triton\n", cache.display()));
    assert_eq!(out(&folder.shell(&["--plain"], script)).trim(), "");
    let users = format!(
        "env TRITON_CACHE_DIR=/t {} run -- sh -c '{script}'",
        env!("CARGO_BIN_EXE_margay")
    );
    assert!(out(&folder.shell(&["--plain"], &users)).ends_with("1 /t 1\n"));
    let links = out(&folder.shell(&[], "ls ${LD_LIBRARY_PATH%%:*}"));
    assert_eq!(links, "bin\nlibcuda.so\nlibcuda.so.1\npython\n");
}

#[test]
fn pytorch_and_jax_find_the_package_before_the_users_packages() {
    let folder = Folder::new("pytorch");
    let margay = env!("CARGO_BIN_EXE_margay");
    let script =
        "cat ${PYTHONPATH%%:*}/margay_run-*.dist-info/entry_points.txt; echo ${PYTHONPATH#*:}";
    let script = format!("PYTHONPATH=/users {margay} run -- sh -c '{script}'");
    let shown = out(&folder.shell(&["--plain"], &script));
    assert_eq!(
        shown,
        "[torch.backends]\nmargay = margay.torch:autoload\n\n[jax_plugins]\nmargay = margay.jax\n/users\n"
    );
    // A file that is incomplete is replaced.
    let cut = "file=${PYTHONPATH%%:*}/margay/torch/__init__.py; : > $file";
    out(&folder.shell(&[], cut));
    let again = out(&folder.shell(
        &[],
        "grep -c autoload ${PYTHONPATH%%:*}/margay/torch/__init__.py",
    ));
    assert_ne!(again.trim(), "0");
    let plain = out(&folder.shell(&["--plain"], "echo ${PYTHONPATH:-none}"));
    assert_eq!(plain, "none\n");
}
