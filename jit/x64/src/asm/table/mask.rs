//! The rows of masks.

#[rustfmt::skip]
macro_rules! mask {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vpmovm2b    Evex "vpmovm2b"  PF3 M0F38 0x28 W0 L125 "=vr kR"    ""  ""  Bw;
Vpmovm2w    Evex "vpmovm2w"  PF3 M0F38 0x28 W1 L125 "=vr kR"    ""  ""  Bw;
Vpmovm2d    Evex "vpmovm2d"  PF3 M0F38 0x38 W0 L125 "=vr kR"    ""  ""  Dq;
Vpmovm2q    Evex "vpmovm2q"  PF3 M0F38 0x38 W1 L125 "=vr kR"    ""  ""  Dq;
Vpmovb2m    Evex "vpmovb2m"  PF3 M0F38 0x29 W0 L125 "=kr vR"    ""  ""  Bw;
Vpmovw2m    Evex "vpmovw2m"  PF3 M0F38 0x29 W1 L125 "=kr vR"    ""  ""  Bw;
Vpmovd2m    Evex "vpmovd2m"  PF3 M0F38 0x39 W0 L125 "=kr vR"    ""  ""  Dq;
Vpmovq2m    Evex "vpmovq2m"  PF3 M0F38 0x39 W1 L125 "=kr vR"    ""  ""  Dq;
Vpmovmskb   Vex  "vpmovmskb" P66 M0F   0xd7 W0 L12  "=dr vR"    ""  ""  AvxInt;
Vmovmskps   Vex  "vmovmskps" NP  M0F   0x50 W0 L12  "=dr vR"    ""  ""  Avx;
Vmovmskpd   Vex  "vmovmskpd" P66 M0F   0x50 W0 L12  "=dr vR"    ""  ""  Avx;
Kmov        Vex  "kmovb"     P66 M0F   0x90 W0 W8   "=kr km"    "1" ""  Dq
          | Vex  "kmovw"     NP  M0F   0x90 W0 W16  "=kr km"    "2" ""  F
          | Vex  "kmovd"     P66 M0F   0x90 W1 W32  "=kr km"    "4" ""  Bw
          | Vex  "kmovq"     NP  M0F   0x90 W1 W64  "=kr km"    "8" ""  Bw;
KmovFromGpr Vex  "kmovb"     P66 M0F   0x92 W0 W8   "=kr dR"    ""  ""  Dq
          | Vex  "kmovw"     NP  M0F   0x92 W0 W16  "=kr dR"    ""  ""  F
          | Vex  "kmovd"     PF2 M0F   0x92 W0 W32  "=kr dR"    ""  ""  Bw
          | Vex  "kmovq"     PF2 M0F   0x92 W1 W64  "=kr lR"    ""  ""  Bw;
KmovStore   Vex  "kmovb"     P66 M0F   0x91 W0 W8   "=M kr"     "1" ""  Dq
          | Vex  "kmovw"     NP  M0F   0x91 W0 W16  "=M kr"     "2" ""  F
          | Vex  "kmovd"     P66 M0F   0x91 W1 W32  "=M kr"     "4" ""  Bw
          | Vex  "kmovq"     NP  M0F   0x91 W1 W64  "=M kr"     "8" ""  Bw;
KmovToGpr   Vex  "kmovb"     P66 M0F   0x93 W0 W8   "=dr kR"    ""  ""  Dq
          | Vex  "kmovw"     NP  M0F   0x93 W0 W16  "=dr kR"    ""  ""  F
          | Vex  "kmovd"     PF2 M0F   0x93 W0 W32  "=dr kR"    ""  ""  Bw
          | Vex  "kmovq"     PF2 M0F   0x93 W1 W64  "=lr kR"    ""  ""  Bw;
Kand        Vex  "kandb"     P66 M0F   0x41 W0 W8   "=kr kv kR" ""  "1" Dq
          | Vex  "kandw"     NP  M0F   0x41 W0 W16  "=kr kv kR" ""  "1" F
          | Vex  "kandd"     P66 M0F   0x41 W1 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "kandq"     NP  M0F   0x41 W1 W64  "=kr kv kR" ""  "1" Bw;
Kandn       Vex  "kandnb"    P66 M0F   0x42 W0 W8   "=kr kv kR" ""  "1" Dq
          | Vex  "kandnw"    NP  M0F   0x42 W0 W16  "=kr kv kR" ""  "1" F
          | Vex  "kandnd"    P66 M0F   0x42 W1 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "kandnq"    NP  M0F   0x42 W1 W64  "=kr kv kR" ""  "1" Bw;
Kor         Vex  "korb"      P66 M0F   0x45 W0 W8   "=kr kv kR" ""  "1" Dq
          | Vex  "korw"      NP  M0F   0x45 W0 W16  "=kr kv kR" ""  "1" F
          | Vex  "kord"      P66 M0F   0x45 W1 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "korq"      NP  M0F   0x45 W1 W64  "=kr kv kR" ""  "1" Bw;
Kxnor       Vex  "kxnorb"    P66 M0F   0x46 W0 W8   "=kr kv kR" ""  "1" Dq
          | Vex  "kxnorw"    NP  M0F   0x46 W0 W16  "=kr kv kR" ""  "1" F
          | Vex  "kxnord"    P66 M0F   0x46 W1 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "kxnorq"    NP  M0F   0x46 W1 W64  "=kr kv kR" ""  "1" Bw;
Kxor        Vex  "kxorb"     P66 M0F   0x47 W0 W8   "=kr kv kR" ""  "1" Dq
          | Vex  "kxorw"     NP  M0F   0x47 W0 W16  "=kr kv kR" ""  "1" F
          | Vex  "kxord"     P66 M0F   0x47 W1 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "kxorq"     NP  M0F   0x47 W1 W64  "=kr kv kR" ""  "1" Bw;
Knot        Vex  "knotb"     P66 M0F   0x44 W0 W8   "=kr kR"    ""  ""  Dq
          | Vex  "knotw"     NP  M0F   0x44 W0 W16  "=kr kR"    ""  ""  F
          | Vex  "knotd"     P66 M0F   0x44 W1 W32  "=kr kR"    ""  ""  Bw
          | Vex  "knotq"     NP  M0F   0x44 W1 W64  "=kr kR"    ""  ""  Bw;
Kortest     Vex  "kortestb"  P66 M0F   0x98 W0 W8   "kr kR"     ""  ""  Dq
          | Vex  "kortestw"  NP  M0F   0x98 W0 W16  "kr kR"     ""  ""  F
          | Vex  "kortestd"  P66 M0F   0x98 W1 W32  "kr kR"     ""  ""  Bw
          | Vex  "kortestq"  NP  M0F   0x98 W1 W64  "kr kR"     ""  ""  Bw;
Ktest       Vex  "ktestb"    P66 M0F   0x99 W0 W8   "kr kR"     ""  ""  Dq
          | Vex  "ktestw"    NP  M0F   0x99 W0 W16  "kr kR"     ""  ""  Dq
          | Vex  "ktestd"    P66 M0F   0x99 W1 W32  "kr kR"     ""  ""  Bw
          | Vex  "ktestq"    NP  M0F   0x99 W1 W64  "kr kR"     ""  ""  Bw;
Kshiftl     Vex  "kshiftlb"  P66 M0F3A 0x32 W0 W8   "=kr kR ib" ""  ""  Dq
          | Vex  "kshiftlw"  P66 M0F3A 0x32 W1 W16  "=kr kR ib" ""  ""  F
          | Vex  "kshiftld"  P66 M0F3A 0x33 W0 W32  "=kr kR ib" ""  ""  Bw
          | Vex  "kshiftlq"  P66 M0F3A 0x33 W1 W64  "=kr kR ib" ""  ""  Bw;
Kshiftr     Vex  "kshiftrb"  P66 M0F3A 0x30 W0 W8   "=kr kR ib" ""  ""  Dq
          | Vex  "kshiftrw"  P66 M0F3A 0x30 W1 W16  "=kr kR ib" ""  ""  F
          | Vex  "kshiftrd"  P66 M0F3A 0x31 W0 W32  "=kr kR ib" ""  ""  Bw
          | Vex  "kshiftrq"  P66 M0F3A 0x31 W1 W64  "=kr kR ib" ""  ""  Bw;
Kunpck      Vex  "kunpckbw"  P66 M0F   0x4b W0 W16  "=kr kv kR" ""  "1" F
          | Vex  "kunpckwd"  NP  M0F   0x4b W0 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "kunpckdq"  NP  M0F   0x4b W1 W64  "=kr kv kR" ""  "1" Bw;
Kadd        Vex  "kaddb"     P66 M0F   0x4a W0 W8   "=kr kv kR" ""  "1" Dq
          | Vex  "kaddw"     NP  M0F   0x4a W0 W16  "=kr kv kR" ""  "1" Dq
          | Vex  "kaddd"     P66 M0F   0x4a W1 W32  "=kr kv kR" ""  "1" Bw
          | Vex  "kaddq"     NP  M0F   0x4a W1 W64  "=kr kv kR" ""  "1" Bw;
    }};
}
