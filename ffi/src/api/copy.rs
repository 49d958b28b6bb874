//! Entry points for copies and fills.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

cuda_api! {
    cuMemcpy 4000,
    cuMemcpy_ptds 7000 ptds: (dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize) => memcpy;
    cuMemcpyPeer 4000,
    cuMemcpyPeer_ptds 7000 ptds:
        (dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
         src_context: CUcontext, byte_count: usize) => memcpy_peer;
    cuMemcpyHtoD_v2 3020,
    cuMemcpyHtoD_v2_ptds 7000 ptds:
        (dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize) => memcpy_htod;
    cuMemcpyDtoH_v2 3020,
    cuMemcpyDtoH_v2_ptds 7000 ptds:
        (dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize) => memcpy_dtoh;
    cuMemcpyDtoD_v2 3020,
    cuMemcpyDtoD_v2_ptds 7000 ptds:
        (dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize) => memcpy_dtod;
    cuMemcpyDtoA_v2 3020,
    cuMemcpyDtoA_v2_ptds 7000 ptds:
        (dst_array: CUarray, dst_offset: usize, src_device: CUdeviceptr,
         byte_count: usize) => memcpy_dtoa;
    cuMemcpyAtoD_v2 3020,
    cuMemcpyAtoD_v2_ptds 7000 ptds:
        (dst_device: CUdeviceptr, src_array: CUarray, src_offset: usize,
         byte_count: usize) => memcpy_atod;
    cuMemcpyHtoA_v2 3020,
    cuMemcpyHtoA_v2_ptds 7000 ptds:
        (dst_array: CUarray, dst_offset: usize, src_host: *const c_void,
         byte_count: usize) => memcpy_htoa;
    cuMemcpyAtoH_v2 3020,
    cuMemcpyAtoH_v2_ptds 7000 ptds:
        (dst_host: *mut c_void, src_array: CUarray, src_offset: usize,
         byte_count: usize) => memcpy_atoh;
    cuMemcpyAtoA_v2 3020,
    cuMemcpyAtoA_v2_ptds 7000 ptds:
        (dst_array: CUarray, dst_offset: usize, src_array: CUarray, src_offset: usize,
         byte_count: usize) => memcpy_atoa;
    cuMemcpy2D_v2 3020,
    cuMemcpy2D_v2_ptds 7000 ptds: (copy: *const CUDA_MEMCPY2D) => memcpy_2d;
    cuMemcpy2DUnaligned_v2 3020,
    cuMemcpy2DUnaligned_v2_ptds 7000 ptds: (copy: *const CUDA_MEMCPY2D) => memcpy_2d_unaligned;
    cuMemcpy3D_v2 3020,
    cuMemcpy3D_v2_ptds 7000 ptds: (copy: *const CUDA_MEMCPY3D) => memcpy_3d;
    cuMemcpy3DPeer 4000,
    cuMemcpy3DPeer_ptds 7000 ptds: (copy: *const CUDA_MEMCPY3D_PEER) => memcpy_3d_peer;
    cuMemcpyAsync 4000,
    cuMemcpyAsync_ptsz 7000 ptsz:
        (dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, stream: CUstream) => memcpy_async;
    cuMemcpyPeerAsync 4000,
    cuMemcpyPeerAsync_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
         src_context: CUcontext, byte_count: usize, stream: CUstream) => memcpy_peer_async;
    cuMemcpyHtoDAsync_v2 3020,
    cuMemcpyHtoDAsync_v2_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize,
         stream: CUstream) => memcpy_htod_async;
    cuMemcpyDtoHAsync_v2 3020,
    cuMemcpyDtoHAsync_v2_ptsz 7000 ptsz:
        (dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize,
         stream: CUstream) => memcpy_dtoh_async;
    cuMemcpyDtoDAsync_v2 3020,
    cuMemcpyDtoDAsync_v2_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize,
         stream: CUstream) => memcpy_dtod_async;
    cuMemcpyHtoAAsync_v2 3020,
    cuMemcpyHtoAAsync_v2_ptsz 7000 ptsz:
        (dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize,
         stream: CUstream) => memcpy_htoa_async;
    cuMemcpyAtoHAsync_v2 3020,
    cuMemcpyAtoHAsync_v2_ptsz 7000 ptsz:
        (dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize,
         stream: CUstream) => memcpy_atoh_async;
    cuMemcpy2DAsync_v2 3020,
    cuMemcpy2DAsync_v2_ptsz 7000 ptsz:
        (copy: *const CUDA_MEMCPY2D, stream: CUstream) => memcpy_2d_async;
    cuMemcpy3DAsync_v2 3020,
    cuMemcpy3DAsync_v2_ptsz 7000 ptsz:
        (copy: *const CUDA_MEMCPY3D, stream: CUstream) => memcpy_3d_async;
    cuMemcpy3DPeerAsync 4000,
    cuMemcpy3DPeerAsync_ptsz 7000 ptsz:
        (copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) => memcpy_3d_peer_async;
    cuMemcpyBatchAsync_v2 13000,
    cuMemcpyBatchAsync_v2_ptsz 13000 ptsz:
        (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
         attrs: *mut CUmemcpyAttributes, attrs_idxs: *mut usize, num_attrs: usize,
         stream: CUstream) => memcpy_batch_async_v2;
    cuMemcpy3DBatchAsync_v2 13000,
    cuMemcpy3DBatchAsync_v2_ptsz 13000 ptsz:
        (num_ops: usize, op_list: *mut CUDA_MEMCPY3D_BATCH_OP, flags: c_ulonglong,
         stream: CUstream) => memcpy_3d_batch_async_v2;
    cuMemcpyWithAttributesAsync 13020,
    cuMemcpyWithAttributesAsync_ptsz 13020 ptsz:
        (dst: CUdeviceptr, src: CUdeviceptr, size: usize, attr: *mut CUmemcpyAttributes,
         stream: CUstream) => memcpy_with_attributes_async;
    cuMemcpy3DWithAttributesAsync 13020,
    cuMemcpy3DWithAttributesAsync_ptsz 13020 ptsz:
        (op: *mut CUDA_MEMCPY3D_BATCH_OP, flags: c_ulonglong, stream: CUstream) => memcpy_3d_with_attributes_async;
    cuMemsetD8_v2 3020,
    cuMemsetD8_v2_ptds 7000 ptds: (dst_device: CUdeviceptr, uc: c_uchar, n: usize) => memset_d8;
    cuMemsetD16_v2 3020,
    cuMemsetD16_v2_ptds 7000 ptds: (dst_device: CUdeviceptr, us: c_ushort, n: usize) => memset_d16;
    cuMemsetD32_v2 3020,
    cuMemsetD32_v2_ptds 7000 ptds: (dst_device: CUdeviceptr, ui: c_uint, n: usize) => memset_d32;
    cuMemsetD2D8_v2 3020,
    cuMemsetD2D8_v2_ptds 7000 ptds:
        (dst_device: CUdeviceptr, dst_pitch: usize, uc: c_uchar, width: usize,
         height: usize) => memset_2d_d8;
    cuMemsetD2D16_v2 3020,
    cuMemsetD2D16_v2_ptds 7000 ptds:
        (dst_device: CUdeviceptr, dst_pitch: usize, us: c_ushort, width: usize,
         height: usize) => memset_2d_d16;
    cuMemsetD2D32_v2 3020,
    cuMemsetD2D32_v2_ptds 7000 ptds:
        (dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize,
         height: usize) => memset_2d_d32;
    cuMemsetD8Async 3020,
    cuMemsetD8Async_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, uc: c_uchar, n: usize, stream: CUstream) => memset_d8_async;
    cuMemsetD16Async 3020,
    cuMemsetD16Async_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, us: c_ushort, n: usize, stream: CUstream) => memset_d16_async;
    cuMemsetD32Async 3020,
    cuMemsetD32Async_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, ui: c_uint, n: usize, stream: CUstream) => memset_d32_async;
    cuMemsetD2D8Async 3020,
    cuMemsetD2D8Async_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, dst_pitch: usize, uc: c_uchar, width: usize, height: usize,
         stream: CUstream) => memset_2d_d8_async;
    cuMemsetD2D16Async 3020,
    cuMemsetD2D16Async_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, dst_pitch: usize, us: c_ushort, width: usize, height: usize,
         stream: CUstream) => memset_2d_d16_async;
    cuMemsetD2D32Async 3020,
    cuMemsetD2D32Async_ptsz 7000 ptsz:
        (dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize, height: usize,
         stream: CUstream) => memset_2d_d32_async;
    cuFabricCpyBatchAsync 13050,
    cuFabricCpyBatchAsync_ptsz 13050 ptsz:
        (num_ops: usize, op_list: *mut CUDA_FABRIC_COPY_BATCH_OP, flags: c_ulonglong,
         stream: CUstream) => unsupported;
    cuMemcpyHtoD 2000:
        (dst_device: CUdeviceptr_v1, src_host: *const c_void, byte_count: c_uint) => memcpy_htod_v1;
    cuMemcpyDtoH 2000:
        (dst_host: *mut c_void, src_device: CUdeviceptr_v1, byte_count: c_uint) => memcpy_dtoh_v1;
    cuMemcpyDtoD 2000:
        (dst_device: CUdeviceptr_v1, src_device: CUdeviceptr_v1, byte_count: c_uint) => memcpy_dtod_v1;
    cuMemcpyDtoA 2000:
        (dst_array: CUarray, dst_offset: c_uint, src_device: CUdeviceptr_v1,
         byte_count: c_uint) => unsupported;
    cuMemcpyAtoD 2000:
        (dst_device: CUdeviceptr_v1, src_array: CUarray, src_offset: c_uint,
         byte_count: c_uint) => unsupported;
    cuMemcpyHtoA 2000:
        (dst_array: CUarray, dst_offset: c_uint, src_host: *const c_void,
         byte_count: c_uint) => memcpy_htoa_v1;
    cuMemcpyAtoH 2000:
        (dst_host: *mut c_void, src_array: CUarray, src_offset: c_uint,
         byte_count: c_uint) => memcpy_atoh_v1;
    cuMemcpyAtoA 2000:
        (dst_array: CUarray, dst_offset: c_uint, src_array: CUarray, src_offset: c_uint,
         byte_count: c_uint) => memcpy_atoa_v1;
    cuMemcpyHtoAAsync 2000:
        (dst_array: CUarray, dst_offset: c_uint, src_host: *const c_void, byte_count: c_uint,
         stream: CUstream) => memcpy_htoa_async_v1;
    cuMemcpyAtoHAsync 2000:
        (dst_host: *mut c_void, src_array: CUarray, src_offset: c_uint, byte_count: c_uint,
         stream: CUstream) => memcpy_atoh_async_v1;
    cuMemcpy2D 2000: (copy: *const CUDA_MEMCPY2D_v1) => memcpy_2d_v1;
    cuMemcpy2DUnaligned 2000: (copy: *const CUDA_MEMCPY2D_v1) => memcpy_2d_v1;
    cuMemcpy3D 2000: (copy: *const CUDA_MEMCPY3D_v1) => memcpy_3d_v1;
    cuMemcpyHtoDAsync 2000:
        (dst_device: CUdeviceptr_v1, src_host: *const c_void, byte_count: c_uint,
         stream: CUstream) => memcpy_htod_async_v1;
    cuMemcpyDtoHAsync 2000:
        (dst_host: *mut c_void, src_device: CUdeviceptr_v1, byte_count: c_uint,
         stream: CUstream) => memcpy_dtoh_async_v1;
    cuMemcpyDtoDAsync 3000:
        (dst_device: CUdeviceptr_v1, src_device: CUdeviceptr_v1, byte_count: c_uint,
         stream: CUstream) => memcpy_dtod_async_v1;
    cuMemcpy2DAsync 2000: (copy: *const CUDA_MEMCPY2D_v1, stream: CUstream) => memcpy_2d_async_v1;
    cuMemcpy3DAsync 2000: (copy: *const CUDA_MEMCPY3D_v1, stream: CUstream) => memcpy_3d_async_v1;
    cuMemsetD8 2000: (dst_device: CUdeviceptr_v1, uc: c_uchar, n: c_uint) => memset_d8_v1;
    cuMemsetD16 2000: (dst_device: CUdeviceptr_v1, us: c_ushort, n: c_uint) => memset_d16_v1;
    cuMemsetD32 2000: (dst_device: CUdeviceptr_v1, ui: c_uint, n: c_uint) => memset_d32_v1;
    cuMemsetD2D8 2000:
        (dst_device: CUdeviceptr_v1, dst_pitch: c_uint, uc: c_uchar, width: c_uint,
         height: c_uint) => memset_d2d8_v1;
    cuMemsetD2D16 2000:
        (dst_device: CUdeviceptr_v1, dst_pitch: c_uint, us: c_ushort, width: c_uint,
         height: c_uint) => memset_d2d16_v1;
    cuMemsetD2D32 2000:
        (dst_device: CUdeviceptr_v1, dst_pitch: c_uint, ui: c_uint, width: c_uint,
         height: c_uint) => memset_d2d32_v1;
    cuMemcpyBatchAsync 12080,
    cuMemcpyBatchAsync_ptsz 12080 ptsz:
        (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
         attrs: *mut CUmemcpyAttributes, attrs_idxs: *mut usize, num_attrs: usize,
         fail_idx: *mut usize, stream: CUstream) => memcpy_batch_async_v1;
    cuMemcpy3DBatchAsync 12080,
    cuMemcpy3DBatchAsync_ptsz 12080 ptsz:
        (num_ops: usize, op_list: *mut CUDA_MEMCPY3D_BATCH_OP, fail_idx: *mut usize,
         flags: c_ulonglong, stream: CUstream) => memcpy_3d_batch_async_v1;
}
