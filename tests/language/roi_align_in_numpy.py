"""torchvision::roi_align as torchvision's documentation describes it, one sampled point after the other."""

import numpy as np

import surgeon


def bilinear(image, y, x):
    """The channels of [channels, rows, columns] at one point; nothing more than a pixel outside."""
    channels, rows, columns = image.shape
    if not (-1 <= y <= rows and -1 <= x <= columns):
        return np.zeros(channels, image.dtype)
    y, x = max(y, 0), max(x, 0)
    top, left = min(int(y), rows - 1), min(int(x), columns - 1)
    below, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
    down, along = (0.0 if top == below else y - top), (0.0 if left == right else x - left)
    upper = image[:, top, left] * (1 - along) + image[:, top, right] * along
    lower = image[:, below, left] * (1 - along) + image[:, below, right] * along
    return upper * (1 - down) + lower * down


@surgeon.implements("torchvision::roi_align")
def roi_align(x, boxes, *, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """The mean of `sampling_ratio`² points in each cell of each box."""
    made = np.zeros((len(boxes), x.shape[1], pooled_height, pooled_width), x.dtype)
    for place, (image, *corners) in enumerate(boxes):
        if not 0 <= image < len(x):
            raise IndexError(f"there is no image {image}")
        left, top, right, bottom = (corner * spatial_scale - 0.5 * aligned for corner in corners)
        least = -np.inf if aligned else 1.0
        height, width = max(bottom - top, least) / pooled_height, max(right - left, least) / pooled_width
        steps = [sampling_ratio if sampling_ratio > 0 else int(np.ceil(size)) for size in (height, width)]
        for row, column in np.ndindex(pooled_height, pooled_width):
            down = top + (row + (np.arange(steps[0]) + 0.5) / steps[0]) * height
            along = left + (column + (np.arange(steps[1]) + 0.5) / steps[1]) * width
            points = [bilinear(x[int(image)], y, x_) for y in down for x_ in along]
            made[place, :, row, column] = sum(points) / max(len(points), 1)
    return made
