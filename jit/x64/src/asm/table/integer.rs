//! The rows of arithmetic on vectors of integers.

#[rustfmt::skip]
macro_rules! integer {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vpaddb            Vex  "vpaddb"            P66 M0F   0xfc WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddb"            P66 M0F   0xfc WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpaddw            Vex  "vpaddw"            P66 M0F   0xfd WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddw"            P66 M0F   0xfd WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpaddd            Vex  "vpaddd"            P66 M0F   0xfe WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddd"            P66 M0F   0xfe W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpaddq            Vex  "vpaddq"            P66 M0F   0xd4 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddq"            P66 M0F   0xd4 W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpsubb            Vex  "vpsubb"            P66 M0F   0xf8 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubb"            P66 M0F   0xf8 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsubw            Vex  "vpsubw"            P66 M0F   0xf9 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubw"            P66 M0F   0xf9 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsubd            Vex  "vpsubd"            P66 M0F   0xfa WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubd"            P66 M0F   0xfa W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpsubq            Vex  "vpsubq"            P66 M0F   0xfb WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubq"            P66 M0F   0xfb W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpaddsb           Vex  "vpaddsb"           P66 M0F   0xec WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddsb"           P66 M0F   0xec WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpaddsw           Vex  "vpaddsw"           P66 M0F   0xed WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddsw"           P66 M0F   0xed WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpaddusb          Vex  "vpaddusb"          P66 M0F   0xdc WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddusb"          P66 M0F   0xdc WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpaddusw          Vex  "vpaddusw"          P66 M0F   0xdd WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpaddusw"          P66 M0F   0xdd WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsubsb           Vex  "vpsubsb"           P66 M0F   0xe8 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubsb"           P66 M0F   0xe8 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsubsw           Vex  "vpsubsw"           P66 M0F   0xe9 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubsw"           P66 M0F   0xe9 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsubusb          Vex  "vpsubusb"          P66 M0F   0xd8 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubusb"          P66 M0F   0xd8 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsubusw          Vex  "vpsubusw"          P66 M0F   0xd9 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsubusw"          P66 M0F   0xd9 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmulld           Vex  "vpmulld"           P66 M0F38 0x40 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmulld"           P66 M0F38 0x40 W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpmullq           Evex "vpmullq"           P66 M0F38 0x40 W1  L125 "=vr vv vm"    "v" "BZ" Dq;
Vpmullw           Vex  "vpmullw"           P66 M0F   0xd5 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmullw"           P66 M0F   0xd5 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmuludq          Vex  "vpmuludq"          P66 M0F   0xf4 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmuludq"          P66 M0F   0xf4 W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpmuldq           Vex  "vpmuldq"           P66 M0F38 0x28 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmuldq"           P66 M0F38 0x28 W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpmulhuw          Vex  "vpmulhuw"          P66 M0F   0xe4 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmulhuw"          P66 M0F   0xe4 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmulhw           Vex  "vpmulhw"           P66 M0F   0xe5 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmulhw"           P66 M0F   0xe5 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmulhrsw         Vex  "vpmulhrsw"         P66 M0F38 0x0b WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmulhrsw"         P66 M0F38 0x0b WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpavgb            Vex  "vpavgb"            P66 M0F   0xe0 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpavgb"            P66 M0F   0xe0 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpavgw            Vex  "vpavgw"            P66 M0F   0xe3 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpavgw"            P66 M0F   0xe3 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpminsb           Vex  "vpminsb"           P66 M0F38 0x38 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpminsb"           P66 M0F38 0x38 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpminsw           Vex  "vpminsw"           P66 M0F   0xea WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpminsw"           P66 M0F   0xea WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpminsd           Vex  "vpminsd"           P66 M0F38 0x39 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpminsd"           P66 M0F38 0x39 W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpminsq           Evex "vpminsq"           P66 M0F38 0x39 W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpminub           Vex  "vpminub"           P66 M0F   0xda WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpminub"           P66 M0F   0xda WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpminuw           Vex  "vpminuw"           P66 M0F38 0x3a WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpminuw"           P66 M0F38 0x3a WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpminud           Vex  "vpminud"           P66 M0F38 0x3b WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpminud"           P66 M0F38 0x3b W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpminuq           Evex "vpminuq"           P66 M0F38 0x3b W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpmaxsb           Vex  "vpmaxsb"           P66 M0F38 0x3c WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaxsb"           P66 M0F38 0x3c WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmaxsw           Vex  "vpmaxsw"           P66 M0F   0xee WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaxsw"           P66 M0F   0xee WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmaxsd           Vex  "vpmaxsd"           P66 M0F38 0x3d WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaxsd"           P66 M0F38 0x3d W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpmaxsq           Evex "vpmaxsq"           P66 M0F38 0x3d W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpmaxub           Vex  "vpmaxub"           P66 M0F   0xde WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaxub"           P66 M0F   0xde WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmaxuw           Vex  "vpmaxuw"           P66 M0F38 0x3e WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaxuw"           P66 M0F38 0x3e WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmaxud           Vex  "vpmaxud"           P66 M0F38 0x3f WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaxud"           P66 M0F38 0x3f W0  L125 "=vr vv vm"    "v" "BZ" F;
Vpmaxuq           Evex "vpmaxuq"           P66 M0F38 0x3f W1  L125 "=vr vv vm"    "v" "BZ" F;
Vpabsb            Vex  "vpabsb"            P66 M0F38 0x1c WIG L12  "=vr vm"       "v" ""   AvxInt
                | Evex "vpabsb"            P66 M0F38 0x1c WIG L125 "=vr vm"       "v" "Z"  Bw;
Vpabsw            Vex  "vpabsw"            P66 M0F38 0x1d WIG L12  "=vr vm"       "v" ""   AvxInt
                | Evex "vpabsw"            P66 M0F38 0x1d WIG L125 "=vr vm"       "v" "Z"  Bw;
Vpabsd            Vex  "vpabsd"            P66 M0F38 0x1e WIG L12  "=vr vm"       "v" ""   AvxInt
                | Evex "vpabsd"            P66 M0F38 0x1e W0  L125 "=vr vm"       "v" "BZ" F;
Vpabsq            Evex "vpabsq"            P66 M0F38 0x1f W1  L125 "=vr vm"       "v" "BZ" F;
Vpsignb           Vex  "vpsignb"           P66 M0F38 0x08 WIG L12  "=vr vv vm"    "v" ""   AvxInt;
Vpsignw           Vex  "vpsignw"           P66 M0F38 0x09 WIG L12  "=vr vv vm"    "v" ""   AvxInt;
Vpsignd           Vex  "vpsignd"           P66 M0F38 0x0a WIG L12  "=vr vv vm"    "v" ""   AvxInt;
Vpdpbusd          Vex  "vpdpbusd"          P66 M0F38 0x50 W0  L12  "+vr vv vm"    "v" ""   AvxVnni
                | Evex "vpdpbusd"          P66 M0F38 0x50 W0  L125 "+vr vv vm"    "v" "BZ" Vnni;
Vpdpbusds         Vex  "vpdpbusds"         P66 M0F38 0x51 W0  L12  "+vr vv vm"    "v" ""   AvxVnni
                | Evex "vpdpbusds"         P66 M0F38 0x51 W0  L125 "+vr vv vm"    "v" "BZ" Vnni;
Vpdpwssd          Vex  "vpdpwssd"          P66 M0F38 0x52 W0  L12  "+vr vv vm"    "v" ""   AvxVnni
                | Evex "vpdpwssd"          P66 M0F38 0x52 W0  L125 "+vr vv vm"    "v" "BZ" Vnni;
Vpdpwssds         Vex  "vpdpwssds"         P66 M0F38 0x53 W0  L12  "+vr vv vm"    "v" ""   AvxVnni
                | Evex "vpdpwssds"         P66 M0F38 0x53 W0  L125 "+vr vv vm"    "v" "BZ" Vnni;
Vpmaddwd          Vex  "vpmaddwd"          P66 M0F   0xf5 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaddwd"          P66 M0F   0xf5 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpmaddubsw        Vex  "vpmaddubsw"        P66 M0F38 0x04 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpmaddubsw"        P66 M0F38 0x04 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpsadbw           Vex  "vpsadbw"           P66 M0F   0xf6 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpsadbw"           P66 M0F   0xf6 WIG L125 "=vr vv vm"    "v" ""   Bw;
Vdbpsadbw         Evex "vdbpsadbw"         P66 M0F3A 0x42 W0  L125 "=vr vv vm ib" "v" "Z"  Bw;
Vpmadd52luq       Evex "vpmadd52luq"       P66 M0F38 0xb4 W1  L125 "+vr vv vm"    "v" "BZ" Ifma;
Vpmadd52huq       Evex "vpmadd52huq"       P66 M0F38 0xb5 W1  L125 "+vr vv vm"    "v" "BZ" Ifma;
Vpackuswb         Vex  "vpackuswb"         P66 M0F   0x67 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpackuswb"         P66 M0F   0x67 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpackusdw         Vex  "vpackusdw"         P66 M0F38 0x2b WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpackusdw"         P66 M0F38 0x2b W0  L125 "=vr vv vm"    "v" "BZ" Bw;
Vpacksswb         Vex  "vpacksswb"         P66 M0F   0x63 WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpacksswb"         P66 M0F   0x63 WIG L125 "=vr vv vm"    "v" "Z"  Bw;
Vpackssdw         Vex  "vpackssdw"         P66 M0F   0x6b WIG L12  "=vr vv vm"    "v" ""   AvxInt
                | Evex "vpackssdw"         P66 M0F   0x6b W0  L125 "=vr vv vm"    "v" "BZ" Bw;
Vphaddw           Vex  "vphaddw"           P66 M0F38 0x01 WIG L12  "=vr vv vm"    "v" ""   AvxInt;
Vphaddd           Vex  "vphaddd"           P66 M0F38 0x02 WIG L12  "=vr vv vm"    "v" ""   AvxInt;
Vpmultishiftqb    Evex "vpmultishiftqb"    P66 M0F38 0x83 W1  L125 "=vr vv vm"    "v" "BZ" Vbmi;
Vgf2p8affineqb    Vex  "vgf2p8affineqb"    P66 M0F3A 0xce W1  L12  "=vr vv vm ib" "v" ""   Gfni
                | Evex "vgf2p8affineqb"    P66 M0F3A 0xce W1  L125 "=vr vv vm ib" "v" "BZ" Gfni;
Vgf2p8affineinvqb Vex  "vgf2p8affineinvqb" P66 M0F3A 0xcf W1  L12  "=vr vv vm ib" "v" ""   Gfni
                | Evex "vgf2p8affineinvqb" P66 M0F3A 0xcf W1  L125 "=vr vv vm ib" "v" "BZ" Gfni;
Vgf2p8mulb        Vex  "vgf2p8mulb"        P66 M0F38 0xcf W0  L12  "=vr vv vm"    "v" ""   Gfni
                | Evex "vgf2p8mulb"        P66 M0F38 0xcf W0  L125 "=vr vv vm"    "v" "Z"  Gfni;
    }};
}
