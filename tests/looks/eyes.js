// What a person would not like to see on this page, as sentences; an empty list if all is well.
(() => {
  const found = [];
  const colour = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const name = (text) => `"${text.textContent.trim().replace(/\s+/g, " ").slice(0, 40)}"`;

  const rgba = (css) => {
    colour.clearRect(0, 0, 1, 1);
    colour.fillStyle = css;
    colour.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = colour.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const luminance = (parts) => {
    const [r, g, b] = parts.map((part) => part / 255).map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one.slice(0, 3)), luminance(other.slice(0, 3))].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const behind = (element) => {
    if (!element) return canvas;
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(element.parentElement));
  };
  const opacity = (element) => (element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1);
  const seen = (element, ink) => {
    const ground = behind(element.closest("svg") ? element.closest("svg").parentElement : element);
    const [r, g, b, a] = rgba(ink);
    return contrast(over([r, g, b, a * opacity(element)], ground), ground);
  };
  const drawn = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1;

  const scroller = document.scrollingElement;
  if (scroller.scrollWidth > innerWidth) found.push(`the page is ${scroller.scrollWidth} wide, the window ${innerWidth}`);
  if (!document.body.innerText.trim()) found.push("nothing is to be read");

  const texts = [...document.querySelectorAll("body *")].filter(
    (element) => drawn(element) && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
  );
  for (const text of texts) {
    if (text.matches("title, desc, caption")) continue;
    const style = getComputedStyle(text), size = parseFloat(style.fontSize);
    const ratio = seen(text, text.closest("svg") ? style.fill : style.color);
    const enough = size >= 24 || (size >= 18.66 && style.fontWeight >= 600) ? 3 : 4.5;
    if (ratio < enough) found.push(`${name(text)} is hard to read: contrast ${ratio.toFixed(1)}`);
    if (size < 12) found.push(`${name(text)} is small: ${size} px`);
  }
  for (const line of document.querySelectorAll(".chart .line:not(.faint), .chart .mark path")) {
    const style = getComputedStyle(line);
    const ratio = seen(line, style.stroke === "none" ? style.fill : style.stroke);
    if (ratio < 3) found.push(`a line of class ${line.getAttribute("class")} is hard to see: contrast ${ratio.toFixed(1)}`);
  }

  for (const chart of document.querySelectorAll("svg.chart")) {
    const title = chart.querySelector("title").textContent;
    const box = chart.closest("figure").getBoundingClientRect(), own = chart.getBoundingClientRect();
    const labels = [...chart.querySelectorAll("text")].filter(drawn).map((text) => [text, text.getBoundingClientRect()]);
    for (const [text, at] of labels) {
      if (at.left < box.left - 1 || at.right > box.right + 1 || at.top < own.top - 1 || at.bottom > own.bottom + 1)
        found.push(`${title}: ${name(text)} sticks out of the chart`);
    }
    labels.forEach(([one, a], at) => {
      for (const [other, b] of labels.slice(at + 1)) {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 0 && high > 2) found.push(`${title}: ${name(one)} and ${name(other)} lie on each other`);
      }
    });
    for (const axis of ["x", "y"])
      if (!labels.some(([text]) => text.matches(`.axis-name.${axis}`) && text.textContent.trim()))
        found.push(`${title}: the ${axis} axis has no name`);
    if (labels.filter(([text]) => text.matches(".tick")).length < 4) found.push(`${title}: the axes have no scale`);
  }
  return found;
})();
