function () {
  const press = window.hothousePress;
  if (!press) return '';
  delete window.hothousePress;
  press.end();
  return press.by;
}
