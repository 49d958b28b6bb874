//! The rows of comparisons of vectors, and selection by masks.

#[rustfmt::skip]
macro_rules! compare {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vpcmpeqb       Evex "vpcmpeqb"  P66 M0F   0x74 WIG L125 "=kr vv vm"    "v" "K"   Bw;
VpcmpeqbVector Vex  "vpcmpeqb"  P66 M0F   0x74 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpeqw       Evex "vpcmpeqw"  P66 M0F   0x75 WIG L125 "=kr vv vm"    "v" "K"   Bw;
VpcmpeqwVector Vex  "vpcmpeqw"  P66 M0F   0x75 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpeqd       Evex "vpcmpeqd"  P66 M0F   0x76 W0  L125 "=kr vv vm"    "v" "BK"  F;
VpcmpeqdVector Vex  "vpcmpeqd"  P66 M0F   0x76 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpeqq       Evex "vpcmpeqq"  P66 M0F38 0x29 W1  L125 "=kr vv vm"    "v" "BK"  F;
VpcmpeqqVector Vex  "vpcmpeqq"  P66 M0F38 0x29 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpgtb       Evex "vpcmpgtb"  P66 M0F   0x64 WIG L125 "=kr vv vm"    "v" "K"   Bw;
VpcmpgtbVector Vex  "vpcmpgtb"  P66 M0F   0x64 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpgtw       Evex "vpcmpgtw"  P66 M0F   0x65 WIG L125 "=kr vv vm"    "v" "K"   Bw;
VpcmpgtwVector Vex  "vpcmpgtw"  P66 M0F   0x65 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpgtd       Evex "vpcmpgtd"  P66 M0F   0x66 W0  L125 "=kr vv vm"    "v" "BK"  F;
VpcmpgtdVector Vex  "vpcmpgtd"  P66 M0F   0x66 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpgtq       Evex "vpcmpgtq"  P66 M0F38 0x37 W1  L125 "=kr vv vm"    "v" "BK"  F;
VpcmpgtqVector Vex  "vpcmpgtq"  P66 M0F38 0x37 WIG L12  "=vr vv vm"    "v" ""    AvxInt;
Vpcmpb         Evex "vpcmpb"    P66 M0F3A 0x3f W0  L125 "=kr vv vm ib" "v" "K"   Bw;
Vpcmpw         Evex "vpcmpw"    P66 M0F3A 0x3f W1  L125 "=kr vv vm ib" "v" "K"   Bw;
Vpcmpd         Evex "vpcmpd"    P66 M0F3A 0x1f W0  L125 "=kr vv vm ib" "v" "BK"  F;
Vpcmpq         Evex "vpcmpq"    P66 M0F3A 0x1f W1  L125 "=kr vv vm ib" "v" "BK"  F;
Vpcmpub        Evex "vpcmpub"   P66 M0F3A 0x3e W0  L125 "=kr vv vm ib" "v" "K"   Bw;
Vpcmpuw        Evex "vpcmpuw"   P66 M0F3A 0x3e W1  L125 "=kr vv vm ib" "v" "K"   Bw;
Vpcmpud        Evex "vpcmpud"   P66 M0F3A 0x1e W0  L125 "=kr vv vm ib" "v" "BK"  F;
Vpcmpuq        Evex "vpcmpuq"   P66 M0F3A 0x1e W1  L125 "=kr vv vm ib" "v" "BK"  F;
Vcmpps         Evex "vcmpps"    NP  M0F   0xc2 W0  L125 "=kr vv vm ib" "v" "BSK" F;
VcmppsVector   Vex  "vcmpps"    NP  M0F   0xc2 WIG L12  "=vr vv vm ib" "v" ""    Avx;
Vcmppd         Evex "vcmppd"    P66 M0F   0xc2 W1  L125 "=kr vv vm ib" "v" "BSK" F;
VcmppdVector   Vex  "vcmppd"    P66 M0F   0xc2 WIG L12  "=vr vv vm ib" "v" ""    Avx;
Vcmpss         Evex "vcmpss"    PF3 M0F   0xc2 W0  S    "=kr vv vm ib" "4" "SK"  F;
VcmpssVector   Vex  "vcmpss"    PF3 M0F   0xc2 WIG S    "=vr vv vm ib" "4" ""    Avx;
Vcmpsd         Evex "vcmpsd"    PF2 M0F   0xc2 W1  S    "=kr vv vm ib" "8" "SK"  F;
VcmpsdVector   Vex  "vcmpsd"    PF2 M0F   0xc2 WIG S    "=vr vv vm ib" "8" ""    Avx;
Vptestmb       Evex "vptestmb"  P66 M0F38 0x26 W0  L125 "=kr vv vm"    "v" "K"   Bw;
Vptestmw       Evex "vptestmw"  P66 M0F38 0x26 W1  L125 "=kr vv vm"    "v" "K"   Bw;
Vptestmd       Evex "vptestmd"  P66 M0F38 0x27 W0  L125 "=kr vv vm"    "v" "BK"  F;
Vptestmq       Evex "vptestmq"  P66 M0F38 0x27 W1  L125 "=kr vv vm"    "v" "BK"  F;
Vptestnmb      Evex "vptestnmb" PF3 M0F38 0x26 W0  L125 "=kr vv vm"    "v" "K"   Bw;
Vptestnmw      Evex "vptestnmw" PF3 M0F38 0x26 W1  L125 "=kr vv vm"    "v" "K"   Bw;
Vptestnmd      Evex "vptestnmd" PF3 M0F38 0x27 W0  L125 "=kr vv vm"    "v" "BK"  F;
Vptestnmq      Evex "vptestnmq" PF3 M0F38 0x27 W1  L125 "=kr vv vm"    "v" "BK"  F;
Vcomiss        Vex  "vcomiss"   NP  M0F   0x2f WIG S    "vr vm"        "4" ""    Avx
             | Evex "vcomiss"   NP  M0F   0x2f W0  S    "vr vm"        "4" "S"   F;
Vcomisd        Vex  "vcomisd"   P66 M0F   0x2f WIG S    "vr vm"        "8" ""    Avx
             | Evex "vcomisd"   P66 M0F   0x2f W1  S    "vr vm"        "8" "S"   F;
Vucomiss       Vex  "vucomiss"  NP  M0F   0x2e WIG S    "vr vm"        "4" ""    Avx
             | Evex "vucomiss"  NP  M0F   0x2e W0  S    "vr vm"        "4" "S"   F;
Vucomisd       Vex  "vucomisd"  P66 M0F   0x2e WIG S    "vr vm"        "8" ""    Avx
             | Evex "vucomisd"  P66 M0F   0x2e W1  S    "vr vm"        "8" "S"   F;
Vpblendmb      Evex "vpblendmb" P66 M0F38 0x66 W0  L125 "=vr vv vm"    "v" "ZC"  Bw;
Vpblendmw      Evex "vpblendmw" P66 M0F38 0x66 W1  L125 "=vr vv vm"    "v" "ZC"  Bw;
Vpblendmd      Evex "vpblendmd" P66 M0F38 0x64 W0  L125 "=vr vv vm"    "v" "BZC" F;
Vpblendmq      Evex "vpblendmq" P66 M0F38 0x64 W1  L125 "=vr vv vm"    "v" "BZC" F;
Vblendmps      Evex "vblendmps" P66 M0F38 0x65 W0  L125 "=vr vv vm"    "v" "BZC" F;
Vblendmpd      Evex "vblendmpd" P66 M0F38 0x65 W1  L125 "=vr vv vm"    "v" "BZC" F;
Vpblendvb      Vex  "vpblendvb" P66 M0F3A 0x4c W0  L12  "=vr vv vm vs" "v" ""    AvxInt;
Vblendvps      Vex  "vblendvps" P66 M0F3A 0x4a W0  L12  "=vr vv vm vs" "v" ""    Avx;
Vblendvpd      Vex  "vblendvpd" P66 M0F3A 0x4b W0  L12  "=vr vv vm vs" "v" ""    Avx;
Vpblendd       Vex  "vpblendd"  P66 M0F3A 0x02 W0  L12  "=vr vv vm ib" "v" ""    Avx2;
Vpblendw       Vex  "vpblendw"  P66 M0F3A 0x0e WIG L12  "=vr vv vm ib" "v" ""    AvxInt;
Vblendps       Vex  "vblendps"  P66 M0F3A 0x0c WIG L12  "=vr vv vm ib" "v" ""    Avx;
Vblendpd       Vex  "vblendpd"  P66 M0F3A 0x0d WIG L12  "=vr vv vm ib" "v" ""    Avx;
    }};
}
