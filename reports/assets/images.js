// View "images": {images: [{label, prediction, share, width, height, pixels}], names}. Small
// pictures with a classifier's predictions. `pixels` is base64 of red, green and blue bytes, row by
// row. `names`, if given, are the names of the classes. Alternatively {images: [{caption, png}]},
// with PNG files in base64.
"use strict";

views.images = (body, view) => {
  function picture({ width, height, pixels }) {
    const canvas = element("canvas", { width, height });
    const context = canvas.getContext("2d");
    const data = context.createImageData(width, height);
    const bytes = atob(pixels);
    for (let i = 0; i < width * height; ++i) {
      for (let c = 0; c < 3; ++c) data.data[4 * i + c] = bytes.charCodeAt(3 * i + c);
      data.data[4 * i + 3] = 255;
    }
    context.putImageData(data, 0, 0);
    return canvas;
  }

  const name = (number) => view.names?.[number] ?? String(number);
  const grid = element("div", { class: "pictures" });
  for (const image of view.images) {
    if (image.png) {
      const file = element("img", { src: `data:image/png;base64,${image.png}`, alt: image.caption });
      grid.append(element("figure", {}, file, element("figcaption", {}, image.caption)));
      continue;
    }
    const share = units.format(image.share, "percent");
    const caption = element("figcaption", {}, `${name(image.label)}, not ${name(image.prediction)}`, element("div", { class: "mark" }, `${share} sure`));
    grid.append(element("figure", {}, picture(image), caption));
  }
  body.append(grid);
};
