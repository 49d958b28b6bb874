//! The rows of broadcasts, compression, counts, and conflicts.

#[rustfmt::skip]
macro_rules! lanes {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vbroadcastss        Vex  "vbroadcastss"    P66 M0F38 0x18 W0 L12  "=vr M"     "4"  ""   Avx
                  | Vex  "vbroadcastss"    P66 M0F38 0x18 W0 L12  "=vr xR"    ""   ""   Avx2
                  | Evex "vbroadcastss"    P66 M0F38 0x18 W0 L125 "=vr xm"    "4"  "Z"  F;
Vbroadcastsd        Vex  "vbroadcastsd"    P66 M0F38 0x19 W0 L2   "=vr M"     "8"  ""   Avx
                  | Vex  "vbroadcastsd"    P66 M0F38 0x19 W0 L2   "=vr xR"    ""   ""   Avx2
                  | Evex "vbroadcastsd"    P66 M0F38 0x19 W1 L25  "=vr xm"    "8"  "Z"  F;
Vbroadcastf32x2     Evex "vbroadcastf32x2" P66 M0F38 0x19 W0 L25  "=vr xm"    "8"  "Z"  Dq;
Vbroadcasti32x2     Evex "vbroadcasti32x2" P66 M0F38 0x59 W0 L125 "=vr xm"    "8"  "Z"  Dq;
Vbroadcastf32x4     Vex  "vbroadcastf128"  P66 M0F38 0x1a W0 L2   "=vr M"     "16" ""   Avx
                  | Evex "vbroadcastf32x4" P66 M0F38 0x1a W0 L25  "=vr M"     "16" "Z"  F;
Vbroadcasti32x4     Vex  "vbroadcasti128"  P66 M0F38 0x5a W0 L2   "=vr M"     "16" ""   Avx2
                  | Evex "vbroadcasti32x4" P66 M0F38 0x5a W0 L25  "=vr M"     "16" "Z"  F;
Vbroadcastf64x2     Vex  "vbroadcastf128"  P66 M0F38 0x1a W0 L2   "=vr M"     "16" ""   Avx
                  | Evex "vbroadcastf64x2" P66 M0F38 0x1a W1 L25  "=vr M"     "16" "Z"  Dq;
Vbroadcasti64x2     Vex  "vbroadcasti128"  P66 M0F38 0x5a W0 L2   "=vr M"     "16" ""   Avx2
                  | Evex "vbroadcasti64x2" P66 M0F38 0x5a W1 L25  "=vr M"     "16" "Z"  Dq;
Vbroadcastf32x8     Evex "vbroadcastf32x8" P66 M0F38 0x1b W0 L5   "=vr M"     "h"  "Z"  Dq;
Vbroadcasti32x8     Evex "vbroadcasti32x8" P66 M0F38 0x5b W0 L5   "=vr M"     "h"  "Z"  Dq;
Vbroadcastf64x4     Evex "vbroadcastf64x4" P66 M0F38 0x1b W1 L5   "=vr M"     "h"  "Z"  F;
Vbroadcasti64x4     Evex "vbroadcasti64x4" P66 M0F38 0x5b W1 L5   "=vr M"     "h"  "Z"  F;
Vpbroadcastb        Vex  "vpbroadcastb"    P66 M0F38 0x78 W0 L12  "=vr xm"    "1"  ""   Avx2
                  | Evex "vpbroadcastb"    P66 M0F38 0x78 W0 L125 "=vr xm"    "1"  "Z"  Bw;
VpbroadcastbFromGpr Evex "vpbroadcastb"    P66 M0F38 0x7a W0 L125 "=vr dR"    ""   "Z"  Bw;
Vpbroadcastw        Vex  "vpbroadcastw"    P66 M0F38 0x79 W0 L12  "=vr xm"    "2"  ""   Avx2
                  | Evex "vpbroadcastw"    P66 M0F38 0x79 W0 L125 "=vr xm"    "2"  "Z"  Bw;
VpbroadcastwFromGpr Evex "vpbroadcastw"    P66 M0F38 0x7b W0 L125 "=vr dR"    ""   "Z"  Bw;
Vpbroadcastd        Vex  "vpbroadcastd"    P66 M0F38 0x58 W0 L12  "=vr xm"    "4"  ""   Avx2
                  | Evex "vpbroadcastd"    P66 M0F38 0x58 W0 L125 "=vr xm"    "4"  "Z"  F;
VpbroadcastdFromGpr Evex "vpbroadcastd"    P66 M0F38 0x7c W0 L125 "=vr dR"    ""   "Z"  F;
Vpbroadcastq        Vex  "vpbroadcastq"    P66 M0F38 0x59 W0 L12  "=vr xm"    "8"  ""   Avx2
                  | Evex "vpbroadcastq"    P66 M0F38 0x59 W1 L125 "=vr xm"    "8"  "Z"  F;
VpbroadcastqFromGpr Evex "vpbroadcastq"    P66 M0F38 0x7c W1 L125 "=vr lR"    ""   "Z"  F;
Vpbroadcastmb2q     Evex "vpbroadcastmb2q" PF3 M0F38 0x2a W1 L125 "=vr kR"    ""   ""   Cd;
Vpbroadcastmw2d     Evex "vpbroadcastmw2d" PF3 M0F38 0x3a W0 L125 "=vr kR"    ""   ""   Cd;
Vpcompressb         Evex "vpcompressb"     P66 M0F38 0x63 W0 L125 "=vm vr"    "c1" "Z"  Vbmi2;
Vpcompressw         Evex "vpcompressw"     P66 M0F38 0x63 W1 L125 "=vm vr"    "c2" "Z"  Vbmi2;
Vpcompressd         Evex "vpcompressd"     P66 M0F38 0x8b W0 L125 "=vm vr"    "c4" "Z"  F;
Vpcompressq         Evex "vpcompressq"     P66 M0F38 0x8b W1 L125 "=vm vr"    "c8" "Z"  F;
Vcompressps         Evex "vcompressps"     P66 M0F38 0x8a W0 L125 "=vm vr"    "c4" "Z"  F;
Vcompresspd         Evex "vcompresspd"     P66 M0F38 0x8a W1 L125 "=vm vr"    "c8" "Z"  F;
Vpexpandb           Evex "vpexpandb"       P66 M0F38 0x62 W0 L125 "=vr vm"    "c1" "Z"  Vbmi2;
Vpexpandw           Evex "vpexpandw"       P66 M0F38 0x62 W1 L125 "=vr vm"    "c2" "Z"  Vbmi2;
Vpexpandd           Evex "vpexpandd"       P66 M0F38 0x89 W0 L125 "=vr vm"    "c4" "Z"  F;
Vpexpandq           Evex "vpexpandq"       P66 M0F38 0x89 W1 L125 "=vr vm"    "c8" "Z"  F;
Vexpandps           Evex "vexpandps"       P66 M0F38 0x88 W0 L125 "=vr vm"    "c4" "Z"  F;
Vexpandpd           Evex "vexpandpd"       P66 M0F38 0x88 W1 L125 "=vr vm"    "c8" "Z"  F;
Vpopcntb            Evex "vpopcntb"        P66 M0F38 0x54 W0 L125 "=vr vm"    "v"  "Z"  Bitalg;
Vpopcntw            Evex "vpopcntw"        P66 M0F38 0x54 W1 L125 "=vr vm"    "v"  "Z"  Bitalg;
Vpopcntd            Evex "vpopcntd"        P66 M0F38 0x55 W0 L125 "=vr vm"    "v"  "BZ" Vpopcntdq;
Vpopcntq            Evex "vpopcntq"        P66 M0F38 0x55 W1 L125 "=vr vm"    "v"  "BZ" Vpopcntdq;
Vplzcntd            Evex "vplzcntd"        P66 M0F38 0x44 W0 L125 "=vr vm"    "v"  "BZ" Cd;
Vplzcntq            Evex "vplzcntq"        P66 M0F38 0x44 W1 L125 "=vr vm"    "v"  "BZ" Cd;
Vpconflictd         Evex "vpconflictd"     P66 M0F38 0xc4 W0 L125 "=vr vm"    "v"  "BZ" Cd;
Vpconflictq         Evex "vpconflictq"     P66 M0F38 0xc4 W1 L125 "=vr vm"    "v"  "BZ" Cd;
Vpshufbitqmb        Evex "vpshufbitqmb"    P66 M0F38 0x8f W0 L125 "=kr vv vm" "v"  "K"  Bitalg;
    }};
}
