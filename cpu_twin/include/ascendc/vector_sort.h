// SPDX-License-Identifier: Apache-2.0
// Sorting by 8-byte records of a score and an index, in falling order of the score.
#pragma once

#include "vector_data.h"

namespace AscendC {

// Each repeat sorts 32 scores of src0 with their indices of src1 into 32 records.
template <typename T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
                   const int32_t repeatTime, TWIN_SITE)
{
    static_assert(SupportType<T, half, float>(), "Sort32 takes half and float");
    Twin::RequireUb(loc, dst, src0);
    Twin::RequireUb(loc, src1);
    vbitsort(dst.GetPhyAddr(), src0.GetPhyAddr(), src1.GetPhyAddr(),
             Twin::NotNegative(repeatTime, "Sort32 repeatTime", loc), loc);
}

// Merges up to four sorted lists of records. With repeatTimes above 1 all four lists must be given, one behind the
// other.
template <typename T>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params, TWIN_SITE)
{
    static_assert(SupportType<T, half, float>(), "MrgSort takes half and float");
    if (params.validBit != 0b0011 && params.validBit != 0b0111 && params.validBit != 0b1111) {
        Twin::Refuse(loc, "MrgSort4Info::validBit: expected 3, 7 or 15 (the first two, three or four lists), got %u",
                     params.validBit);
    }
    if (params.repeatTimes > 1 && params.validBit != 0b1111) {
        Twin::Refuse(loc, "MrgSort4Info: repeatTimes %u needs all four lists (validBit 15), got validBit %u",
                     params.repeatTimes, params.validBit);
    }
    Twin::RequireUb(loc, dst, src.src1, src.src2);
    // A list that validBit leaves out is never read; the first one stands in for its address.
    const bool three = (params.validBit & 0b0100) != 0;
    const bool four = (params.validBit & 0b1000) != 0;
    T* lists[MRG_SORT_ELEMENT_LEN] = {src.src1.GetPhyAddr(), src.src2.GetPhyAddr(),
                                      three ? src.src3.GetPhyAddr() : src.src1.GetPhyAddr(),
                                      four ? src.src4.GetPhyAddr() : src.src1.GetPhyAddr()};
    uint64_t lengths = 0;
    for (uint32_t i = 0; i < MRG_SORT_ELEMENT_LEN; ++i) {
        lengths |= static_cast<uint64_t>(params.elementLengths[i]) << (16 * i);
    }
    const uint64_t config = static_cast<uint64_t>(params.repeatTimes) | static_cast<uint64_t>(params.validBit) << 8 |
                            static_cast<uint64_t>(params.ifExhaustedSuspension) << 12;
    vmrgsort4(dst.GetPhyAddr(), lists, lengths, config, loc);
}
// How many records of each list the last MrgSort took.
inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3,
                             uint16_t& mrgSortList4)
{
    const auto status = static_cast<uint64_t>(get_vms4_sr());
    mrgSortList1 = static_cast<uint16_t>(status);
    mrgSortList2 = static_cast<uint16_t>(status >> 16);
    mrgSortList3 = static_cast<uint16_t>(status >> 32);
    mrgSortList4 = static_cast<uint16_t>(status >> 48);
}
// Elements of a tensor of T that the records of so many scores take.
template <typename T> inline uint32_t GetSortOffset(const uint32_t elemOffset)
{
    static_assert(SupportType<T, half, float>(), "GetSortOffset takes half and float");
    return elemOffset * static_cast<uint32_t>(8 / sizeof(T));
}
template <typename T> inline uint32_t GetSortLen(const uint32_t elemCount) { return GetSortOffset<T>(elemCount); }

}    // namespace AscendC
